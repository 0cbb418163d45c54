"""CREATE SOURCE, TABLE, VIEW, SINK."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Never

from sqlglot.tokenizer_core import Token

from tidegate.errors import enumerated, make
from tidegate.sql.columns import Columns, read_columns
from tidegate.sql.grammar import Parser
from tidegate.sql.options import Attachments, read_attachments, read_options
from tidegate.sql.queries import query_ahead, read_query
from tidegate.sql.statements import CreateRelation, CreateSink, CreateView, Name, Option, Statement

KINDS = ("SOURCE", "STREAM", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK")


@dataclass(frozen=True)
class Heading:
    """`CREATE [OR REPLACE] kind [IF NOT EXISTS] name`; `kind` in small letters, as in `materialized view`."""

    start: Token
    kind: str
    name: Name
    or_replace: bool
    if_not_exists: bool


def read_create(parser: Parser) -> Statement:
    """The statement that starts with CREATE."""
    heading = _heading(parser)
    if heading.kind == "sink":
        return _sink(parser, heading)
    if heading.kind in ("view", "materialized view") or (heading.kind == "stream" and not _has_columns(parser)):
        return _view(parser, heading)
    return _relation(parser, heading)


def _heading(parser: Parser) -> Heading:
    start = parser.start_token()
    parser._advance()
    or_replace = parser.take("OR", "REPLACE")
    kind = _kind(parser)
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        parser.fail("OR REPLACE and IF NOT EXISTS contradict each other", span=parser.since(start))
    name = parser.name(f"the name of the {kind}")
    if parser.at("."):
        parser.fail("a name has one part: all names live in one namespace", span=name.span)
    return Heading(start, kind, name, or_replace, if_not_exists)


def _kind(parser: Parser) -> str:
    if parser.take("MATERIALIZED"):
        parser.expect("VIEW", after="MATERIALIZED")
        return "materialized view"
    word = parser.take_any("SOURCE", "STREAM", "TABLE", "VIEW", "SINK")
    if word is None:
        parser.fail(f"CREATE must be followed by {enumerated(KINDS)}{parser.instead()}", hint=parser.guess(*KINDS))
    return word.lower()


def _has_columns(parser: Parser) -> bool:
    """`CREATE STREAM x (a INT)` is a source, `CREATE STREAM x [(a, b)] AS SELECT` a view."""
    after_name = parser.peek(2)
    return parser.at("(") and after_name is not None and after_name.text not in (",", ")")


def _relation(parser: Parser, heading: Heading) -> Statement:
    if not parser.at("(") and not (heading.kind == "source" and (parser.at("FROM") or parser.at("WITH"))):
        _fail_without_columns(parser, heading)
    columns = read_columns(parser, heading.name) if parser.at("(") else Columns()
    attached = read_attachments(parser, "FROM")
    if parser.at("AS"):
        _reject_as_select(parser, heading)
    return _create_relation(parser, heading, columns, attached)


def _create_relation(parser: Parser, heading: Heading, columns: Columns, attached: Attachments) -> CreateRelation:
    text, span = parser.finish(heading.start)
    attached = with_metadata(attached, columns, parser)
    return CreateRelation(
        text=text,
        span=span,
        kind="table" if heading.kind == "table" else "source",
        name=heading.name,
        columns=tuple(columns.columns),
        primary_key=columns.primary_key,
        watermarks=tuple(columns.watermarks),
        connector=attached.connector,
        options=attached.options,
        or_replace=heading.or_replace,
        if_not_exists=heading.if_not_exists,
    )


def with_metadata(attached: Attachments, columns: Columns, parser: Parser) -> Attachments:
    """Pass METADATA columns to the connector as options `metadata.<column>`."""
    declared = [column for column in columns.columns if column.metadata is not None]
    if declared and attached.connector is None:
        message = f"column {declared[0].name.text} is METADATA of a connector's records, but there is no connector"
        parser.fail(message, span=declared[0].name.span)
    options = [Option(f"metadata.{each.name.text}", each.metadata or "", each.name.span) for each in declared]
    if attached.connector is None:
        return attached
    return replace(attached, connector=replace(attached.connector, options=(*attached.connector.options, *options)))


def _fail_without_columns(parser: Parser, heading: Heading) -> Never:
    if parser.at("AS"):
        _reject_as_select(parser, heading)
    parser.fail(
        f"{heading.kind} {heading.name.text} has no columns",
        hint=f"write CREATE {heading.kind.upper()} {heading.name.text} (column TYPE, ...)",
        span=heading.name.span,
    )


def _reject_as_select(parser: Parser, heading: Heading) -> Never:
    raise make(
        "NOT_SUPPORTED",
        message=f"a {heading.kind} is not made from a query",
        hint=f"write CREATE MATERIALIZED VIEW {heading.name.text} AS SELECT ...",
        span=parser.next_span(),
        text=parser.sql,
    )


def _view(parser: Parser, heading: Heading) -> CreateView:
    aliases = parser.names_in_parentheses(heading.name.text) if parser.at("(") else ()
    options = read_options(parser, "WITH") if parser.take("WITH") else ()
    parser.expect("AS", after=f"{heading.kind.upper()} {heading.name.text}", hint="write ... AS SELECT ...")
    query = read_query(parser)
    if not options and parser.take("WITH"):
        options = read_options(parser, "WITH")
    text, span = parser.finish(heading.start)
    return CreateView(
        text=text,
        span=span,
        name=heading.name,
        query=query,
        materialized=heading.kind != "view",
        aliases=aliases,
        options=options,
        or_replace=heading.or_replace,
        if_not_exists=heading.if_not_exists,
    )


def _sink(parser: Parser, heading: Heading) -> CreateSink:
    """`CREATE SINK s FROM view INTO X (...)` or `... AS SELECT ... INTO X (...)`; also `WITH ('connector' = ...)`."""
    relation = parser.dotted_name("a view after FROM") if parser.take("FROM") else None
    query = read_query(parser) if relation is None and parser.take("AS") and query_ahead(parser) else None
    if relation is None and query is None:
        parser.fail(
            f"sink {heading.name.text} has nothing to write",
            hint=f"write CREATE SINK {heading.name.text} FROM view INTO ..., or AS SELECT ... INTO ...",
        )
    attached = read_attachments(parser, "INTO")
    if attached.connector is None:
        parser.fail(
            f"sink {heading.name.text} has no connector",
            hint="write INTO STDOUT, INTO FILES (...), INTO KAFKA (...), or WITH ('connector' = '...')",
        )
    text, span = parser.finish(heading.start)
    return CreateSink(
        text=text,
        span=span,
        name=heading.name,
        relation=relation,
        query=query,
        connector=attached.connector,
        options=attached.options,
        or_replace=heading.or_replace,
        if_not_exists=heading.if_not_exists,
    )
