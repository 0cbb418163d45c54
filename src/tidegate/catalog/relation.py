"""The entry of one relation in the catalog, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tidegate.core.schema import Column, Schema, names
from tidegate.errors import Span
from tidegate.sql.parsing import parse_definition
from tidegate.sql.statements import CreateRelation, CreateSink, Statement

RelationKind = Literal["source", "table", "view", "sink"]


@dataclass(frozen=True)
class TimeNote:
    """A time annotation as declared: `kind` is watermark, lateness, hold_back or proctime; `sql` its expression."""

    column: str
    kind: str
    sql: str | None = None


@dataclass(frozen=True)
class ConnectorNote:
    """The connector of a relation: its name and options as written. `references`: `${NAME}` in an option is one; not so
    in relations that earlier versions created."""

    kind: str
    options: tuple[tuple[str, str], ...] = ()
    format: str | None = None
    references: bool = False


@dataclass(frozen=True)
class Relation:
    """A source, table, view or sink.

    `sql` is the statement that created it. `dependencies` are the relations it reads. For a view, `key` and `hidden`
    are inferred: the hidden columns belong to its key but were not selected. `emit` is the declared strategy, if any.
    """

    name: str
    kind: RelationKind
    columns: Schema
    sql: str
    primary_key: tuple[str, ...] = ()
    append_only: bool = False
    times: tuple[TimeNote, ...] = ()
    connector: ConnectorNote | None = None
    options: tuple[tuple[str, str], ...] = ()
    emit: str | None = None
    materialized: bool = False
    dependencies: tuple[str, ...] = ()
    changes: str = "changelog"
    key: tuple[str, ...] | None = None
    hidden: Schema = field(default=())

    def __post_init__(self) -> None:
        missing = set(self.primary_key) - set(names(self.columns))
        if missing:
            raise ValueError(f"primary key of {self.name} names columns it does not have: {sorted(missing)}")

    @property
    def statement(self) -> Statement | None:
        """The statement that created it; None for relations that every database has."""
        return parse_definition(self.sql) if self.sql else None

    @property
    def written_options(self) -> list[tuple[str, str, Span | None]]:
        """The options of its connector, with their places in `sql`."""
        assert self.connector is not None
        statement = self.statement
        connector = statement.connector if isinstance(statement, CreateRelation | CreateSink) else None
        spans = {option.key: option.span for option in connector.options} if connector is not None else {}
        return [(key, value, spans.get(key)) for key, value in self.connector.options]

    @property
    def described(self) -> str:
        """The kind in the words of SHOW and of messages."""
        return "materialized view" if self.kind == "view" and self.materialized else self.kind

    @property
    def readable(self) -> bool:
        """True if a query can read it."""
        return self.kind != "sink"

    @property
    def stored(self) -> bool:
        """True if its content is stored: that of tables and materialized views is, that of sources and plain views
        not."""
        return self.kind == "table" or (self.kind == "view" and self.materialized)

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)

    def option(self, name: str) -> str | None:
        return dict(self.options).get(name)
