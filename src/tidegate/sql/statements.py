"""Statements, one immutable class each. Queries and expressions inside are sqlglot trees."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Span


@dataclass(frozen=True)
class Name:
    """An identifier as written (unquoted), with its span in the text."""

    text: str
    span: Span


@dataclass(frozen=True)
class Option:
    """`'key' = 'value'` in WITH (...) or in a connector's parentheses. Values are text, other literals as written.
    `value_span` is the place of the value alone."""

    key: str
    value: str
    span: Span
    value_span: Span | None = None


@dataclass(frozen=True)
class Connector:
    """`FROM KAFKA (...) [FORMAT ...]`, `INTO FILES (...)`, or `WITH ('connector' = ...)`."""

    kind: str
    options: tuple[Option, ...]
    format: str | None
    span: Span


@dataclass(frozen=True)
class ColumnDef:
    """A declared column. `type` is Spark's name for it. `lateness` and `hold_back` are expressions; `proctime` is
    `c AS PROCTIME()`; `metadata` is the field of a record's metadata that the connector fills it with."""

    name: Name
    type: str
    nullable: bool
    primary_key: bool
    lateness: exp.Expr | None = None
    hold_back: exp.Expr | None = None
    proctime: bool = False
    metadata: str | None = None


@dataclass(frozen=True)
class WatermarkClause:
    """`WATERMARK FOR ts AS ts - INTERVAL ...`: `delay` is the subtracted part, None for the bare spelling."""

    column: Name
    delay: exp.Expr | None
    span: Span


@dataclass(frozen=True)
class Emit:
    """EMIT <strategy>: one of on_watermark, on_update, every, on_window_close, changes, final."""

    strategy: str
    interval: exp.Expr | None
    span: Span


@dataclass(frozen=True)
class Query:
    """A SELECT with our clauses. `text` is its text."""

    select: exp.Query
    text: str
    span: Span
    emit: Emit | None = None
    allowed_lateness: exp.Expr | None = None
    late_data_to: Name | None = None
    as_of_step: int | None = None


@dataclass(frozen=True)
class Statement:
    """Any statement: its text and span."""

    text: str
    span: Span


@dataclass(frozen=True)
class CreateRelation(Statement):
    """CREATE SOURCE|STREAM|TABLE with columns. `kind` is source or table."""

    kind: str
    name: Name
    columns: tuple[ColumnDef, ...]
    primary_key: tuple[Name, ...]
    watermarks: tuple[WatermarkClause, ...]
    connector: Connector | None
    options: tuple[Option, ...]
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [MATERIALIZED] VIEW, or CREATE STREAM x AS SELECT (materialized). `aliases`: `v (a, b) AS ...`."""

    name: Name
    query: Query
    materialized: bool
    aliases: tuple[Name, ...] = ()
    options: tuple[Option, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    name: Name
    relation: Name | None
    query: Query | None
    connector: Connector
    options: tuple[Option, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO rel [(columns)] VALUES ... | SELECT ...: `source` is a sqlglot Values or a Query."""

    name: Name
    columns: tuple[Name, ...]
    values: exp.Values | None
    query: Query | None


@dataclass(frozen=True)
class Delete(Statement):
    name: Name
    where: exp.Expr | None


@dataclass(frozen=True)
class Update(Statement):
    name: Name
    assignments: tuple[tuple[Name, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True)
class Advance(Statement):
    """ADVANCE rel.col TO value."""

    relation: Name
    column: Name
    value: exp.Expr


@dataclass(frozen=True)
class Drop(Statement):
    """DROP SOURCE|STREAM|TABLE|VIEW|MATERIALIZED VIEW|SINK. `kind`: source, table, view, sink, or stream, which is
    a source, or a view made by CREATE STREAM x AS SELECT."""

    kind: str
    name: Name
    if_exists: bool
    cascade: bool


@dataclass(frozen=True)
class Show(Statement):
    """`what`: sources, tables, views, materialized views, streams, sinks, queries."""

    what: str


@dataclass(frozen=True)
class ShowCreate(Statement):
    """SHOW CREATE kind name; `kind` as in Drop."""

    kind: str
    name: Name


@dataclass(frozen=True)
class Describe(Statement):
    name: Name
    extended: bool


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [(stage)] SELECT ... | view. `stage`: parsed, bound, rewritten, circuit."""

    stage: str
    query: Query | None
    view: Name | None


@dataclass(frozen=True)
class Select(Statement):
    """An ad-hoc query."""

    query: Query


@dataclass(frozen=True)
class Subscribe(Statement):
    view: Name
    from_step: int | None


@dataclass(frozen=True)
class Lateness(Statement):
    """LATENESS view.col expr."""

    view: Name
    column: Name
    value: exp.Expr


@dataclass(frozen=True)
class Set(Statement):
    name: str
    value: str


@dataclass(frozen=True)
class RefreshTable(Statement):
    name: Name


@dataclass(frozen=True)
class Script:
    """All statements of a text, with the text that spans point into."""

    text: str
    statements: tuple[Statement, ...] = field(default_factory=tuple)
