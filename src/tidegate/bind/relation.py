"""CREATE SOURCE, TABLE and SINK -> catalog entries."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.bind.context import Analyzer
from tidegate.bind.unsupported import check_comparable, check_type, unsupported
from tidegate.catalog import ConnectorNote, Relation, TimeNote
from tidegate.catalog.options import accept
from tidegate.core.quoting import identifier
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error, Span, did_you_mean, make
from tidegate.sql import render, span_of
from tidegate.sql.statements import ColumnDef, Connector, CreateRelation, CreateSink, Lateness, Name, WatermarkClause


def bind_relation(statement: CreateRelation, analyzer: Analyzer) -> Relation:
    """The entry for a source or table: checked columns, key, options and time annotations."""
    _check_columns(statement)
    clocks = tuple(TimeNote(column.name.text, "proctime") for column in statement.columns if column.proctime)
    statement = replace(statement, columns=tuple(column for column in statement.columns if not column.proctime))
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
        times=_time_notes(statement, columns, analyzer) + clocks,
        connector=_connector(statement.connector),
        options=options,
        changes="append" if _append_only(statement, dict(options)) else "changelog",
        key=key or None,
    )


def sink_entry(
    statement: CreateSink,
    columns: Schema,
    dependencies: tuple[str, ...],
    key: tuple[str, ...] | None,
    changes: str,
    hidden: Schema,
) -> Relation:
    """The entry for a sink, with the columns, key and changes of what it reads."""
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


def _primary_key(statement: CreateRelation) -> tuple[str, ...]:
    declared = {column.name.text.casefold(): column.name.text for column in statement.columns}
    inline = [column.name for column in statement.columns if column.primary_key]
    named = inline if inline and not statement.primary_key else [*statement.primary_key]
    for name in named:
        if name.text.casefold() not in declared:
            raise _unknown_column(name, tuple(declared.values()))
    if named and statement.kind == "source":
        hint = f"write CREATE TABLE {statement.name.text} (...)"
        raise unsupported(
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
        Column(column.name.text, typed.type, column.nullable and column.name.text not in key)
        for column, typed in zip(statement.columns, types, strict=True)
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
        raise make("INVALID_OPTION", message=message, hint="use CREATE TABLE for rows that can be deleted", span=span)
    return statement.kind == "source" or options.get("append_only") == "true"


def _time_notes(statement: CreateRelation, columns: Schema, analyzer: Analyzer) -> tuple[TimeNote, ...]:
    """WATERMARK FOR, and LATENESS and WATERMARK on columns."""
    notes = [_watermark_note(clause, columns, analyzer) for clause in statement.watermarks]
    for declared, column in zip(statement.columns, columns, strict=True):
        for kind, value in (("lateness", declared.lateness), ("hold_back", declared.hold_back)):
            if value is not None:
                notes.append(_delay_note(kind, column, value, span_of(value) or declared.name.span, analyzer))
    for note in notes:
        if notes.count(note) > 1:
            message = f"WATERMARK FOR {note.column} is given twice"
            raise make("ALREADY_EXISTS", message=message, hint="leave one out", span=statement.watermarks[-1].span)
    return tuple(notes)


def _watermark_note(clause: WatermarkClause, columns: Schema, analyzer: Analyzer) -> TimeNote:
    by_name = {column.name.casefold(): column for column in columns}
    column = by_name.get(clause.column.text.casefold())
    if column is None:
        raise _unknown_column(clause.column, tuple(each.name for each in columns))
    if clause.delay is None:
        check_subtractable(column, None, clause.span, analyzer)
        return TimeNote(column.name, "watermark")
    return _delay_note("watermark", column, clause.delay, clause.span, analyzer)


def _delay_note(kind: str, column: Column, delay: exp.Expr, span: Span, analyzer: Analyzer) -> TimeNote:
    sql = render(delay)
    check_subtractable(column, sql, span, analyzer)
    return TimeNote(column.name, kind, sql)


def lateness_note(statement: Lateness, view: Relation | None, analyzer: Analyzer) -> TimeNote:
    """The note of `LATENESS view.col expr`, checked against the view if it exists."""
    sql = render(statement.value)
    if view is None:
        return TimeNote(statement.column.text, "lateness", sql)
    column = view.column(statement.column.text)
    if column is None:
        raise _unknown_column(statement.column, tuple(each.name for each in view.columns))
    check_subtractable(column, sql, span_of(statement.value) or statement.span, analyzer)
    return TimeNote(column.name, "lateness", sql)


def check_times(name: str, columns: Schema, times: tuple[TimeNote, ...], analyzer: Analyzer) -> tuple[TimeNote, ...]:
    """LATENESS notes that were declared before the view was created, checked against its columns."""
    by_name = {column.name.casefold(): column for column in columns}
    for note in times:
        column = by_name.get(note.column.casefold())
        if column is None:
            known = did_you_mean(note.column, [each.name for each in columns], what="columns")
            message = f"LATENESS {name}.{note.column}: {name} has no such column"
            raise make("UNKNOWN_COLUMN", message=message, hint=known)
        check_subtractable(column, note.sql, None, analyzer)
    return tuple(replace(note, column=by_name[note.column.casefold()].name) for note in times)


def check_subtractable(column: Column, delay: str | None, span: Span | None, analyzer: Analyzer) -> None:
    """Reject a delay whose difference is not of the column's type. Spark would subtract even from a string."""
    fits = not column.type.startswith(("string", "char", "varchar", "binary", "boolean", "array", "map", "struct"))
    if fits and delay is not None:
        try:
            difference = analyzer.columns((column,), [f"{identifier(column.name)} - ({delay}) AS c"])[0].type
            fits = _family(difference) == _family(column.type)
        except Error:
            fits = False
    if not fits:
        hint = "a watermark needs a time or a number" if delay is None else _delay_hint(column)
        message = f"{column.name}, which is {column.type.upper()}, cannot have a watermark" if delay is None else None
        raise make(
            "LATENESS_TYPE",
            message=message,
            value=delay,
            column=column.name,
            type=column.type.upper(),
            hint=hint,
            span=span,
        )


def _family(type: str) -> str:
    """A family of types that a delay may convert between: numbers, and times (a date minus hours is a timestamp)."""
    plain = type.split("(")[0]
    if plain in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"):
        return "number"
    return "time" if plain in ("date", "timestamp", "timestamp_ntz") else plain


def _delay_hint(column: Column) -> str:
    if _family(column.type) == "time":
        unit = "DAY" if column.type == "date" else "SECOND"
        return f"the watermark of {column.name} needs a length of time, such as INTERVAL '5' {unit}"
    if _family(column.type) == "number":
        return f"the watermark of {column.name} needs a number, such as 5"
    return "a watermark needs a time or a number"


def _connector(connector: Connector | None) -> ConnectorNote | None:
    if connector is None:
        return None
    options = tuple((option.key, option.value) for option in connector.options)
    return ConnectorNote(connector.kind, options, connector.format, references=True)


def _unknown_column(name: Name, known: tuple[str, ...]) -> Error:
    return make("UNKNOWN_COLUMN", name=name.text, hint=did_you_mean(name.text, known, what="columns"), span=name.span)
