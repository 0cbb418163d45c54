"""One statement at a time: what each does to a database, and the result it gives."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate import bind, errors
from tidegate.catalog.relation import Relation
from tidegate.connectors import registry
from tidegate.core.durations import EXPECTED_POSITIVE, parse_micros
from tidegate.core.schema import names
from tidegate.plan.explain import Explanation
from tidegate.runtime import changes, describe
from tidegate.runtime.contents import run_select
from tidegate.runtime.emitting import EARLY_FIRE, fitted, with_default_emit
from tidegate.runtime.refreshing import refresh_table
from tidegate.runtime.results import Result
from tidegate.runtime.sink_definitions import check_fits, visible_key
from tidegate.sql import render
from tidegate.sql import statements as s

if TYPE_CHECKING:
    from tidegate.database import Database

SETTINGS = {
    "retention_steps": "how many steps the log keeps, for AS OF STEP and subscriptions",
    EARLY_FIRE[0]: "whether windows without an EMIT emit before they close",
    EARLY_FIRE[1]: "how often they do",
}


@singledispatch
def execute(statement: s.Statement, db: Database) -> Result:
    """Does what a statement says."""
    raise errors.make("NOT_SUPPORTED", message="this statement cannot be run here", span=statement.span)


@execute.register(s.CreateRelation)
def _(statement: s.CreateRelation, db: Database) -> Result:
    relation = bind.bind_relation(statement, db.engine.analyzer)
    if statement.connector is not None:
        name, columns, connector = relation.name, relation.columns, statement.connector
        options, key = _options(connector), relation.primary_key
        registry.source(connector.kind, name, columns, options, connector.format, connector.span, key)
    return _create(db, statement, relation, ())


@execute.register(s.CreateView)
def _(statement: s.CreateView, db: Database) -> Result:
    statement = with_default_emit(statement, db)
    existing = db.catalog.find(statement.name.text)
    times = existing.times if existing is not None else db.ledger.expected_lateness(statement.name.text)
    bound = bind.bind_view(statement, db.catalog, db.engine.analyzer, bind.Extras(times=times))
    times = bind.known_times(bound, times, db.engine.analyzer)
    return _create(db, statement, bind.view_entry(statement, bound, times), bound.warnings)


@execute.register(s.CreateSink)
def _(statement: s.CreateSink, db: Database) -> Result:
    relation, view = bind.bind_sink(statement, db.catalog, db.engine.analyzer)
    connector = statement.connector
    sink = registry.sink(
        connector.kind,
        relation.name,
        relation.columns,
        _options(connector),
        connector.format,
        connector.span,
        visible_key(relation),
        "" if statement.relation is None else relation.dependencies[0],
    )
    relation = fitted(sink, relation, statement, db)
    check_fits(sink, relation, statement)
    return _create(db, statement, relation, view.warnings if view else ())


def _options(connector: s.Connector) -> list[tuple[str, str, errors.Span | None]]:
    return [(option.key, option.value, option.span) for option in connector.options]


def _create(
    db: Database,
    statement: s.CreateRelation | s.CreateView | s.CreateSink,
    relation: Relation,
    warnings: tuple[errors.Warning_, ...],
) -> Result:
    existing = db.catalog.find(relation.name)
    if existing is not None and statement.if_not_exists:
        return Result(warnings=warnings, message=f"{existing.name} exists already")
    if statement.or_replace:
        catalog = bind.rebound(db.catalog.replace(relation, statement.name.span), db.engine.analyzer)
        db.captures.forget(db.catalog, catalog)
    else:
        catalog = db.catalog.create(relation, statement.name.span)
    db.ledger.created(relation.name, db.log.last(), db.inserts.head())
    if existing is None or existing.columns != relation.columns:
        db.log.begin(relation.name, db.log.last())
    db.replace_catalog(catalog)
    return Result(warnings=warnings, message=f"created {relation.described} {relation.name}")


@execute.register(s.Drop)
def _(statement: s.Drop, db: Database) -> Result:
    if statement.if_exists and statement.name.text not in db.catalog:
        return Result(message=f"{statement.name.text} does not exist")
    relation = db.catalog.get(statement.name.text, statement.name.span)
    if relation.kind != statement.kind and not (statement.kind == "stream" and relation.kind in ("source", "view")):
        raise errors.make(
            "UNKNOWN_RELATION",
            message=f"{relation.name} is a {relation.described}, not a {statement.kind}",
            hint=f"write DROP {relation.described.upper()} {relation.name}",
            span=statement.name.span,
        )
    catalog = db.catalog.drop(relation.name, cascade=statement.cascade, span=statement.name.span)
    db.captures.forget(db.catalog, catalog)
    for gone in {each.name for each in db.catalog} - {each.name for each in catalog}:
        db.ledger.dropped(gone)
    db.replace_catalog(catalog)
    return Result(message=f"dropped {relation.name}")


@execute.register(s.Insert)
def _(statement: s.Insert, db: Database) -> Result:
    return Result(message=f"{changes.insert(statement, db)} rows inserted")


@execute.register(s.Delete)
def _(statement: s.Delete, db: Database) -> Result:
    return Result(message=f"{changes.delete(statement, db)} rows deleted")


@execute.register(s.Update)
def _(statement: s.Update, db: Database) -> Result:
    return Result(message=f"{changes.update(statement, db)} rows updated")


@execute.register(s.RefreshTable)
def _(statement: s.RefreshTable, db: Database) -> Result:
    refresh_table(db, statement.name.text, statement.name.span)
    return Result(message=f"table {statement.name.text} was read anew; the next step has it")


@execute.register(s.Advance)
def _(statement: s.Advance, db: Database) -> Result:
    relation = db.catalog.get(statement.relation.text, statement.relation.span)
    column = relation.column(statement.column.text)
    if column is None:
        hint = errors.did_you_mean(statement.column.text, names(relation.columns), "columns")
        raise errors.make("UNKNOWN_COLUMN", name=statement.column.text, hint=hint, span=statement.column.span)
    found = db.engine.queries.run(f"SELECT CAST(({render(statement.value)}) AS {column.type}) AS v", {})
    value = found.column(0)[0].as_py()
    if value is None:
        raise errors.make(
            "TYPE_MISMATCH",
            message=f"{render(statement.value)} is no value of {column.name}, which is {column.type.upper()}",
            hint=f"write ADVANCE {relation.name}.{column.name} TO a value of that type",
            span=statement.span,
        )
    with db.batch() as batch:
        batch.advance(f"{relation.name}.{column.name}", value)
    return Result(message=f"the frontier of {relation.name}.{column.name} moves with the next step")


@execute.register(s.Select)
def _(statement: s.Select, db: Database) -> Result:
    return query(statement, db, None)


@execute.register(s.Show)
def _(statement: s.Show, db: Database) -> Result:
    return Result(describe.show(db, statement.what))


@execute.register(s.ShowCreate)
def _(statement: s.ShowCreate, db: Database) -> Result:
    return Result(describe.show_create(db.catalog.get(statement.name.text, statement.name.span)))


@execute.register(s.Describe)
def _(statement: s.Describe, db: Database) -> Result:
    relation = db.catalog.get(statement.name.text, statement.name.span)
    return Result(describe.describe(relation, statement.extended))


@execute.register(s.Explain)
def _(statement: s.Explain, db: Database) -> Result:
    if statement.view is not None:
        found = explain_view(db, statement.view.text, statement.stage)
    else:
        assert statement.query is not None
        found = bind.explain_query(statement.query, db.catalog, db.engine.analyzer, statement.stage)
    return Result(pa.table({"plan": str(found).splitlines()}))


@execute.register(s.Subscribe)
def _(statement: s.Subscribe, db: Database) -> Result:
    view = db.catalog.readable(statement.view.text, statement.view.span)
    subscription = db.subscribe(view.name, from_step=statement.from_step, timeout=0)
    tables = list(subscription.batches())
    return Result(pa.concat_tables(tables) if tables else pa.table({}), message="no changes")


@execute.register(s.Lateness)
def _(statement: s.Lateness, db: Database) -> Result:
    name = statement.view.text
    view = db.catalog.find(name)
    if view is not None and view.kind != "view":
        raise errors.make(
            "NOT_SUPPORTED",
            message=f"LATENESS {name}.{statement.column.text}: {view.name} is a {view.described}",
            hint=f"write it in CREATE {view.kind.upper()} {view.name}: {statement.column.text} ... LATENESS ...",
            span=statement.view.span,
        )
    note = bind.lateness_note(statement, view, db.engine.analyzer)
    if view is None:
        db.ledger.expect_lateness(name, note)
        return Result(warnings=(errors.warning("LATENESS_VIEW_NOT_FOUND", name=name, span=statement.view.span),))
    others = tuple(each for each in view.times if each.column != note.column)
    catalog = db.catalog.replace(replace(view, times=(*others, note)))
    db.replace_catalog(bind.rebound(catalog, db.engine.analyzer))
    return Result(message=f"rows of {view.name} are late below the largest {note.column} less {note.sql}")


@execute.register(s.Set)
def _(statement: s.Set, db: Database) -> Result:
    if statement.name not in SETTINGS:
        hint = errors.did_you_mean(statement.name, SETTINGS, "settings")
        raise errors.make(
            "UNKNOWN_OPTION", message=f"there is no setting {statement.name}", hint=hint, span=statement.span
        )
    if statement.name in EARLY_FIRE:
        return _set_early_fire(statement, db)
    if not statement.value.isdigit() or int(statement.value) < 1:
        raise errors.make(
            "INVALID_OPTION",
            message=f"{statement.name} is '{statement.value}', it should be a number of steps",
            hint=f"write SET {statement.name} = 1000",
            span=statement.span,
        )
    db.ledger.set(statement.name, statement.value)
    return Result(message=f"{statement.name} = {statement.value}")


def _set_early_fire(statement: s.Set, db: Database) -> Result:
    """Flink's settings: windows without an EMIT then emit every so often."""
    enabled = statement.name == EARLY_FIRE[0]
    fits = statement.value.lower() in ("true", "false") if enabled else parse_micros(statement.value)
    if not fits:
        expected = "'true' or 'false'" if enabled else EXPECTED_POSITIVE
        raise errors.make(
            "INVALID_OPTION", name=statement.name, value=statement.value, expected=expected, span=statement.span
        )
    db.ledger.set(statement.name, statement.value)
    return Result(message=f"{statement.name} = {statement.value}")


def query(statement: s.Statement, db: Database, as_of: int | None) -> Result:
    """An ad-hoc SELECT, or another statement that only shows something."""
    if isinstance(statement, s.Select):
        return Result(run_select(statement.query, db, as_of))
    if isinstance(statement, s.Show | s.ShowCreate | s.Describe | s.Explain | s.Subscribe):
        return execute(statement, db)
    raise errors.make(
        "SYNTAX_ERROR", message="a query begins with SELECT, SHOW, DESCRIBE or EXPLAIN", span=statement.span
    )


def explain_view(db: Database, name: str, stage: str) -> Explanation:
    """The plan of a view that is there."""
    relation = db.catalog.get(name)
    text, tree = bind.explain_relation(relation, db.catalog, db.engine.analyzer, stage, db.ledger.begun())
    found = Explanation(text)
    found.tree = tree
    return found
