"""What executed statements mean to the oracle: relations that come and go, rows that count in the next step."""

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
from tidegate.testing.inputs import DELETE, INSERT, Given, Input
from tidegate.testing.oracle import Oracle
from tidegate.testing.oracle_query import own_text, reads
from tidegate.testing.time.amounts import amount
from tidegate.testing.time.frontiers import Frontier, Hold, Time

SchemaOf = Callable[[str], Schema]


def note(
    oracle: Oracle, script: sql.Script, schema_of: SchemaOf, lost: Callable[[str], str | None] = lambda view: None
) -> None:
    """Tells the oracle what an executed script did. `schema_of` gives the columns of a relation that now exists, `lost`
    why a view has no batch answer, if it has none."""
    for statement in script.statements:
        _note(statement, oracle, schema_of)
        why = lost(statement.name.text) if isinstance(statement, sql.CreateView) else None
        if why is not None and isinstance(statement, sql.CreateView):
            oracle.lose(statement.name.text, why)


@singledispatch
def _note(statement: sql.Statement, oracle: Oracle, schema_of: SchemaOf) -> None:
    """Statements that only ask change nothing."""


@_note.register
def _(statement: sql.CreateRelation, oracle: Oracle, schema_of: SchemaOf) -> None:
    name = statement.name.text
    if statement.if_not_exists and (name.lower() in oracle.inputs or name.lower() in oracle.views):
        return
    if statement.connector is not None:
        return
    key = [one.text for one in statement.primary_key] or [one.name.text for one in statement.columns if one.primary_key]
    append_only = any(one.key.lower() == "append_only" and one.value.lower() == "true" for one in statement.options)
    columns = schema_of(name)
    time = _time(statement, columns)
    oracle.add_input(Input(name, columns, statement.kind == "source", tuple(key), append_only, time))


def _time(statement: sql.CreateRelation, columns: Schema) -> Time:
    """What the columns and options of a declaration say about time."""
    names = [column.name.lower() for column in columns]
    kinds = [parse_type(column.type) for column in columns]
    time = Time()
    for mark in statement.watermarks:
        place = names.index(mark.column.text.lower())
        time.frontiers.append(Frontier(place, kinds[place], amount(mark.delay), False))
    for column in [each for each in statement.columns if not each.proctime]:
        place = names.index(column.name.text.lower())
        if column.lateness is not None:
            time.frontiers.append(Frontier(place, kinds[place], amount(column.lateness), True))
        if column.hold_back is not None:
            time.holds.append(Hold(place, kinds[place], amount(column.hold_back)))
    options = {option.key.lower(): parse_length(option.value) for option in statement.options}
    time.idle_timeout = found.micros if (found := options.get("idle_timeout")) else None
    time.max_ahead = found.micros if (found := options.get("max_ahead")) else None
    return time


@_note.register
def _(statement: sql.CreateView, oracle: Oracle, schema_of: SchemaOf) -> None:
    if statement.if_not_exists and statement.name.text.lower() in oracle.views:
        return
    aliases = tuple(alias.text for alias in statement.aliases)
    final = next((one.value for one in statement.options if one.key.lower() == "emit_final"), None)
    query, why = _over_events(statement.query, lambda each: _columns(each, oracle, schema_of))
    kept = statement.materialized or query is not statement.query
    oracle.add_view(statement.name.text, query, kept, aliases, final)
    if why is not None:
        oracle.lose(statement.name.text, why)
    if any(one.key.lower() == "max_groups" for one in statement.options):
        oracle.lose(statement.name.text, "which groups a cap lets in is not modelled")


def _columns(name: str, oracle: Oracle, schema_of: SchemaOf) -> Schema | None:
    return schema_of(name) if name.lower() in oracle.inputs or name.lower() in oracle.views else None


def _over_events(query: sql.Query, columns: Columns) -> tuple[sql.Query, str | None]:
    """A query over the event bus as a batch can run it, or why none can: how the time of events goes is not
    modelled."""
    select = over_events(query.select, columns)
    if select is query.select:
        return query, None
    timed = query.emit is not None or any(_by_time(node) for node in query.select.walk())
    if timed:
        stand_in = sql_parse(f"SELECT id FROM {BUS}").statements[0]
        assert isinstance(stand_in, sql.Select)
        return stand_in.query, "it goes by the time of events"
    return replace(query, select=select, text=render(select)), None


def _by_time(node: exp.Expr) -> bool:
    said = clauses(node)
    joined = isinstance(node, exp.Join) and WITHIN in node.meta
    windowed = isinstance(node, exp.Table) and windowed_bus(node) is not None
    return said.window is not None or said.event_time is not None or joined or windowed


@_note.register
def _(statement: sql.Lateness, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.declare_lateness(statement.view.text, statement.column.text, amount(statement.value))


@_note.register
def _(statement: sql.Advance, oracle: Oracle, schema_of: SchemaOf) -> None:
    relation = oracle.inputs.get(statement.relation.text.lower())
    if relation is not None:
        column = relation.columns[relation.place(statement.column.text)]
        answer = oracle.select(f"SELECT CAST({render(statement.value)} AS {column.type}) AS v", ())
        oracle.advance(relation.name, column.name, answer.values[0][0])


@_note.register
def _(statement: sql.CreateSink, oracle: Oracle, schema_of: SchemaOf) -> None:
    if statement.relation is not None and not oracle.says_emit(statement.relation.text):
        oracle.lose(statement.relation.text, "a sink may have decided its EMIT")


@_note.register
def _(statement: sql.Set, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.settings[statement.name.lower()] = statement.value


@_note.register
def _(statement: sql.Drop, oracle: Oracle, schema_of: SchemaOf) -> None:
    oracle.drop(statement.name.text)


@_note.register
def _(statement: sql.Insert, oracle: Oracle, schema_of: SchemaOf) -> None:
    relation = oracle.inputs.get(statement.name.text.lower())
    if relation is None:
        return
    if statement.query is not None:
        rows, names = f"({own_text(statement.query)})", reads(statement.query)
    elif statement.values is not None:
        rows, names = f"({render(statement.values)})", ()
    given = [column.text for column in statement.columns] or [column.name for column in relation.columns]
    answer = oracle.select(f"SELECT {_casts(relation, given)} FROM {rows} AS rows({_quoted(given)})", names)
    oracle.give(relation.name, [Given(INSERT, row) for row in answer.values])


@_note.register
def _(statement: sql.Delete, oracle: Oracle, schema_of: SchemaOf) -> None:
    _change(statement.name, statement.where, oracle, DELETE, {})


@_note.register
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
    relation.give(Given(action, row) for row in answer.values)


def _casts(relation: Input, given: list[str]) -> str:
    """All columns of the relation in order, NULL where the statement gives none."""
    known = {name.lower() for name in given}
    return ", ".join(
        f"CAST({f'`{column.name}`' if column.name.lower() in known else 'NULL'} AS {column.type}) AS `{column.name}`"
        for column in relation.columns
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
