"""CREATE SOURCE, TABLE and SINK -> catalog entries."""

from __future__ import annotations

from tidegate.bind.analyzer import Analyzer
from tidegate.bind.storable import check_comparable, check_type
from tidegate.bind.unsupported import refused
from tidegate.bind.view import BoundView, bind_view
from tidegate.catalog import Catalog, ConnectorNote, Relation, TimeNote
from tidegate.catalog.options import accept
from tidegate.catalog.schema import Column, Schema
from tidegate.errors import Error, did_you_mean, make
from tidegate.plan.words import quoted
from tidegate.sql import render, span_of
from tidegate.sql.statements import ColumnDef, Connector, CreateRelation, CreateSink, Name, Watermark


def bind_relation(statement: CreateRelation, analyzer: Analyzer) -> Relation:
    """The entry for a source or table: checked columns, key, options and time annotations."""
    _check_columns(statement)
    key = _primary_key(statement)
    columns = _columns(statement, key, analyzer)
    options = accept(statement.options, statement.kind)
    return Relation(
        name=statement.name.text,
        kind="table" if statement.kind == "table" else "source",
        columns=columns,
        sql=statement.text,
        primary_key=key,
        append_only=_append_only(statement, dict(options)),
        times=tuple(_time_note(mark, columns, analyzer) for mark in statement.watermarks),
        connector=_connector(statement.connector),
        options=options,
        changes="append" if _append_only(statement, dict(options)) else "changelog",
        key=key or None,
    )


def bind_sink(statement: CreateSink, catalog: Catalog, analyzer: Analyzer) -> tuple[Relation, BoundView | None]:
    """The entry for a sink, and the view it is over if it has a query of its own."""
    if statement.query is not None:
        view = bind_view(statement, catalog, analyzer)
        entry = _sink_entry(statement, view.columns, view.dependencies, view.key, view.kind, view.hidden)
        return entry, view
    assert statement.relation is not None
    read = catalog.readable(statement.relation.text, statement.relation.span)
    return _sink_entry(statement, read.columns, (read.name,), read.key, read.changes, read.hidden), None


def _sink_entry(
    statement: CreateSink,
    columns: Schema,
    dependencies: tuple[str, ...],
    key: tuple[str, ...] | None,
    changes: str,
    hidden: Schema,
) -> Relation:
    return Relation(
        name=statement.name.text,
        kind="sink",
        columns=columns,
        sql=statement.text,
        connector=_connector(statement.connector),
        options=tuple((option.key, option.value) for option in statement.options),
        dependencies=dependencies,
        changes=changes,
        key=key,
        hidden=hidden,
    )


def _check_columns(statement: CreateRelation) -> None:
    seen: set[str] = set()
    for column in statement.columns:
        name = column.name
        if name.text.casefold() in seen:
            message = f"{statement.name.text} has two columns {name.text}"
            raise make("ALREADY_EXISTS", message=message, hint="leave one out, or rename it", span=name.span)
        if name.text.startswith("__"):
            message = f"column {name.text}: names that begin with two underscores are reserved"
            raise make("NOT_SUPPORTED", message=message, hint="choose another name", span=name.span)
        seen.add(name.text.casefold())
        _check_time(column)


def _check_time(column: ColumnDef) -> None:
    """What drops or holds back rows is not maintained yet."""
    if column.lateness is not None:
        raise refused("LATENESS", span_of(column.lateness) or column.name.span, "leave it out")
    if column.hold_back is not None:
        hint = "leave it out, or write WATERMARK FOR " + column.name.text
        raise refused("WATERMARK on a column", span_of(column.hold_back) or column.name.span, hint)
    if column.proctime:
        raise refused("PROCTIME()", column.name.span, "insert the time as a column")


def _primary_key(statement: CreateRelation) -> tuple[str, ...]:
    declared = {column.name.text.casefold(): column.name.text for column in statement.columns}
    inline = [column.name for column in statement.columns if column.primary_key]
    named = inline if inline and not statement.primary_key else [*statement.primary_key]
    for name in named:
        if name.text.casefold() not in declared:
            raise _unknown(name, tuple(declared.values()))
    if named and statement.kind == "source":
        hint = f"write CREATE TABLE {statement.name.text} (...)"
        raise refused(
            "a PRIMARY KEY on a source", named[0].span, hint, "a source is append-only: its rows replace nothing"
        )
    return tuple(dict.fromkeys(declared[name.text.casefold()] for name in named))


def _columns(statement: CreateRelation, key: tuple[str, ...], analyzer: Analyzer) -> Schema:
    """The columns with Spark's names for their types."""
    exprs = [f"CAST(NULL AS {column.type}) AS c{number}" for number, column in enumerate(statement.columns)]
    try:
        types = analyzer.columns((), exprs)
    except Error:
        types = tuple(_type(column, analyzer) for column in statement.columns)
    columns = tuple(
        Column(column.name.text, found.type, column.nullable and column.name.text not in key)
        for column, found in zip(statement.columns, types, strict=True)
    )
    for column, declared in zip(columns, statement.columns, strict=True):
        check_type(column, declared.name.span)
        if column.name in key:
            check_comparable([column], "a PRIMARY KEY of", declared.name.span)
    return columns


def _type(column: ColumnDef, analyzer: Analyzer) -> Column:
    try:
        return analyzer.columns((), [f"CAST(NULL AS {column.type}) AS c"])[0]
    except Error as error:
        message = f"column {column.name.text}: there is no type {column.type}"
        hint = error.hint or "types are Spark's: STRING, BIGINT, DOUBLE, DECIMAL(10, 2), TIMESTAMP, ..."
        raise make("TYPE_MISMATCH", message=message, hint=hint, span=column.name.span) from None


def _append_only(statement: CreateRelation, options: dict[str, str]) -> bool:
    if statement.kind == "source" and options.get("append_only") == "false":
        span = next(option.span for option in statement.options if option.key.casefold() == "append_only")
        message = "a source is always append-only"
        raise make("INVALID_OPTION", message=message, hint="CREATE TABLE has rows that go", span=span)
    return statement.kind == "source" or options.get("append_only") == "true"


def _time_note(mark: Watermark, columns: Schema, analyzer: Analyzer) -> TimeNote:
    by_name = {column.name.casefold(): column for column in columns}
    column = by_name.get(mark.column.text.casefold())
    if column is None:
        raise _unknown(mark.column, tuple(each.name for each in columns))
    if mark.delay is None:
        return TimeNote(column.name, "watermark")
    delay = render(mark.delay)
    _check_subtractable(column, delay, mark, analyzer)
    return TimeNote(column.name, "watermark", delay)


def _check_subtractable(column: Column, delay: str, mark: Watermark, analyzer: Analyzer) -> None:
    """Spark would subtract from a string too, by guessing what it means."""
    try:
        analyzer.columns((column,), [f"{quoted(column.name)} - ({delay})"])
        fits = not column.type.startswith(("string", "char", "varchar", "binary", "boolean"))
    except Error:
        fits = False
    if not fits:
        hint = "a waterline needs a time or a number"
        raise make(
            "LATENESS_TYPE", value=delay, column=column.name, type=column.type.upper(), hint=hint, span=mark.span
        )


def _connector(connector: Connector | None) -> ConnectorNote | None:
    if connector is None:
        return None
    options = tuple((option.key, option.value) for option in connector.options)
    return ConnectorNote(connector.kind, options, connector.format)


def _unknown(name: Name, known: tuple[str, ...]) -> Error:
    return make("UNKNOWN_COLUMN", name=name.text, hint=did_you_mean(name.text, known, what="columns"), span=name.span)
