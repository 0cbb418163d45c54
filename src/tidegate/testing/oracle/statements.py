"""Applies executed statements to the oracle: relations are created and dropped, rows queue for the next step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

from sqlglot import exp

from tidegate.bind.events.paths import Columns, windowed_bus
from tidegate.bind.events.views import over_events
from tidegate.catalog.bus import BUS
from tidegate.core.durations import parse_length
from tidegate.core.schema import Schema
from tidegate.core.types import parse_type
from tidegate.sql import clauses, render
from tidegate.sql import parse as sql_parse
from tidegate.sql import statements as sql
from tidegate.sql.grammar import WITHIN
from tidegate.testing.oracle.amounts import amount
from tidegate.testing.oracle.inputs import DELETE, INSERT, Input, InputRow
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.oracle.query import own_text, reads
from tidegate.testing.oracle.watermarks import DeclaredWatermark, HoldBack, InputTime

SchemaOf = Callable[[str], Schema]


def apply_script(
    oracle: Oracle, script: sql.Script, schema_of: SchemaOf, unknown: Callable[[str], str | None] = lambda view: None
) -> None:
    """Apply a script that the engine has executed. `schema_of` gives the columns of an existing relation, `unknown` the
    reason why a view has no batch answer, if it has none."""
    for statement in script.statements:
        _apply(statement, oracle, schema_of)
        if isinstance(statement, sql.CreateView) and (reason := unknown(statement.name.text)) is not None:
            oracle.set_unknown(statement.name.text, reason)


@singledispatch
def _apply(statement: sql.Statement, oracle: Oracle, schema_of: SchemaOf) -> None:
    """Statements without a rule of their own change nothing."""


@_apply.register
def _(statement: sql.CreateRelation, oracle: Oracle, schema_of: SchemaOf) -> None:
    name = statement.name.text
    if statement.if_not_exists and (name.lower() in oracle.inputs or name.lower() in oracle.views):
        return
    if statement.connector is not None:
        return
    key = [name.text for name in statement.primary_key]
    key = key or [column.name.text for column in statement.columns if column.primary_key]
    append_only = _option(statement, "append_only") == "true"
    columns = schema_of(name)
    time = _input_time(statement, columns)
    oracle.add_input(Input(name, columns, statement.kind == "source", tuple(key), append_only, time))


def _option(statement: sql.CreateRelation | sql.CreateView, key: str) -> str | None:
    """The value of an option in lower case."""
    return next((option.value.lower() for option in statement.options if option.key.lower() == key), None)


def _input_time(statement: sql.CreateRelation, columns: Schema) -> InputTime:
    """The watermarks, hold-backs and time options of a declaration."""
    names = [column.name.lower() for column in columns]
    kinds = [parse_type(column.type) for column in columns]
    time = InputTime()
    for watermark in statement.watermarks:
        index = names.index(watermark.column.text.lower())
        time.watermarks.append(DeclaredWatermark(index, kinds[index], amount(watermark.delay), False))
    for column in [each for each in statement.columns if not each.proctime]:
        index = names.index(column.name.text.lower())
        if column.lateness is not None:
            time.watermarks.append(DeclaredWatermark(index, kinds[index], amount(column.lateness), True))
        if column.hold_back is not None:
            time.hold_backs.append(HoldBack(index, kinds[index], amount(column.hold_back)))
    options = {each.key.lower(): parse_length(each.value) for each in statement.options}
    time.idle_timeout = option.micros if (option := options.get("idle_timeout")) else None
    time.max_ahead = option.micros if (option := options.get("max_ahead")) else None
    return time


@_apply.register
def _(statement: sql.CreateView, oracle: Oracle, schema_of: SchemaOf) -> None:
    if statement.if_not_exists and statement.name.text.lower() in oracle.views:
        return
    aliases = tuple(alias.text for alias in statement.aliases)
    final = next((option.value for option in statement.options if option.key.lower() == "emit_final"), None)
    query, unknown = _over_events(statement.query, lambda name: _columns(name, oracle, schema_of))
    materialized = statement.materialized or query is not statement.query
    oracle.add_view(statement.name.text, query, materialized, aliases, final)
    if unknown is not None:
        oracle.set_unknown(statement.name.text, unknown)
    if _option(statement, "max_groups") is not None:
        oracle.set_unknown(statement.name.text, "which groups max_groups admits is not modelled")


def _columns(name: str, oracle: Oracle, schema_of: SchemaOf) -> Schema | None:
    return schema_of(name) if name.lower() in oracle.inputs or name.lower() in oracle.views else None


def _over_events(query: sql.Query, columns: Columns) -> tuple[sql.Query, str | None]:
    """A query over the event bus as a batch query, and why it has none: the time of events is not modelled."""
    select = over_events(query.select, columns)
    if select is query.select:
        return query, None
    timed = query.emit is not None or any(_uses_event_time(node) for node in query.select.walk())
    if timed:
        stand_in = sql_parse(f"SELECT id FROM {BUS}").statements[0]
        assert isinstance(stand_in, sql.Select)
        return stand_in.query, "it uses the time of events"
    return replace(query, select=select, text=render(select)), None


def _uses_event_time(node: exp.Expr) -> bool:
    own = clauses(node)
    joined = isinstance(node, exp.Join) and WITHIN in node.meta
    windowed = isinstance(node, exp.Table) and windowed_bus(node) is not None
    return own.window is not None or own.event_time is not None or joined or windowed


@_apply.register
def _(statement: sql.Lateness, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.declare_lateness(statement.view.text, statement.column.text, amount(statement.value))


@_apply.register
def _(statement: sql.Advance, oracle: Oracle, schema_of: SchemaOf) -> None:
    relation = oracle.inputs.get(statement.relation.text.lower())
    if relation is not None:
        column = relation.columns[relation.index(statement.column.text)]
        answer = oracle.select(f"SELECT CAST({render(statement.value)} AS {column.type}) AS v", ())
        oracle.advance(relation.name, column.name, answer.values[0][0])


@_apply.register
def _(statement: sql.CreateSink, oracle: Oracle, schema_of: SchemaOf) -> None:
    if statement.relation is not None and not oracle.has_emit(statement.relation.text):
        oracle.set_unknown(statement.relation.text, "a sink may have decided its EMIT")


@_apply.register
def _(statement: sql.Set, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.settings[statement.name.lower()] = statement.value


@_apply.register
def _(statement: sql.Drop, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.drop(statement.name.text)


@_apply.register
def _(statement: sql.Insert, oracle: Oracle, schema_of: SchemaOf) -> None:
    relation = oracle.inputs.get(statement.name.text.lower())
    if relation is None:
        return
    if statement.query is not None:
        rows, names = f"({own_text(statement.query)})", reads(statement.query)
    elif statement.values is not None:
        rows, names = f"({render(statement.values)})", ()
    columns = [column.text for column in statement.columns] or [column.name for column in relation.columns]
    answer = oracle.select(f"SELECT {_casts(relation, columns)} FROM {rows} AS rows({_quoted(columns)})", names)
    oracle.write(relation.name, [InputRow(INSERT, row) for row in answer.values])


@_apply.register
def _(statement: sql.Delete, oracle: Oracle, schema_of: SchemaOf) -> None:
    _change(statement.name, statement.where, oracle, DELETE, {})


@_apply.register
def _(statement: sql.Update, oracle: Oracle, schema_of: SchemaOf) -> None:
    values = {name.text.lower(): value for name, value in statement.assignments}
    _change(statement.name, statement.where, oracle, INSERT, values)


def _change(name: sql.Name, where: exp.Expr | None, oracle: Oracle, action: str, values: dict[str, Any]) -> None:
    relation = oracle.inputs.get(name.text.lower())
    if relation is None:
        return
    items = [
        f"CAST({render(values[column.name.lower()])} AS {column.type}) AS `{column.name}`"
        if column.name.lower() in values
        else f"`{column.name}`"
        for column in relation.columns
    ]
    condition = render(where) if where is not None else "true"
    answer = oracle.select(
        f"SELECT {', '.join(items)} FROM {relation.name} WHERE {condition}", (relation.name.lower(),)
    )
    relation.write(InputRow(action, row) for row in answer.values)


def _casts(relation: Input, columns: list[str]) -> str:
    """All columns of the relation in order, NULL for those that are not in `columns`."""
    known = {name.lower() for name in columns}
    return ", ".join(
        f"CAST({f'`{column.name}`' if column.name.lower() in known else 'NULL'} AS {column.type}) AS `{column.name}`"
        for column in relation.columns
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
