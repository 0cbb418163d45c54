"""Executes statements: what each does to a database, and the result it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatchmethod

import pyarrow as pa

from tidegate import bind, compile, errors
from tidegate.catalog.relation import Relation
from tidegate.connectors import registry
from tidegate.core.durations import EXPECTED_POSITIVE, parse_micros
from tidegate.core.schema import names
from tidegate.core.tables import counted
from tidegate.plan.explain import Explanation
from tidegate.runtime import describe
from tidegate.runtime.batch import Batch
from tidegate.runtime.captures import Captures
from tidegate.runtime.contents import Contents
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.data_changes import DataChanges
from tidegate.runtime.emitting import EARLY_FIRE, with_default_emit, with_forced_emit
from tidegate.runtime.polled_tables import PolledTables
from tidegate.runtime.results import Result
from tidegate.runtime.sink_definitions import check_fits, visible_key
from tidegate.runtime.subscription import Subscription
from tidegate.spark.connection import SparkConnection
from tidegate.sql import render
from tidegate.sql import statements as s
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_log import StepLog

SETTINGS = {
    "retention_steps": "how many steps the log keeps, for AS OF STEP and subscriptions",
    EARLY_FIRE[0]: "whether windows without an EMIT emit before they close",
    EARLY_FIRE[1]: "how often they do",
}


class StatementExecutor:
    """Executes statements against the collaborators of one open data folder."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        ledger: Ledger,
        log: StepLog,
        inserts: InsertLog,
        spark: SparkConnection,
        contents: Contents,
        tables: PolledTables,
        captures: Captures,
        batch: Callable[[], Batch],
        subscribe: Callable[..., Subscription],
        check_writable: Callable[[], None],
    ) -> None:
        self._catalog, self._ledger, self._log, self._inserts = catalog, ledger, log, inserts
        self._spark, self._contents, self._tables, self._captures = spark, contents, tables, captures
        self._batch, self._subscribe, self._check_writable = batch, subscribe, check_writable
        self._changes = DataChanges(catalog, contents, spark, batch)

    @singledispatchmethod
    def execute(self, statement: s.Statement) -> Result:
        """Execute one statement."""
        raise errors.make("NOT_SUPPORTED", message="this statement cannot be run here", span=statement.span)

    @execute.register(s.CreateRelation)
    def _(self, statement: s.CreateRelation) -> Result:
        relation = bind.bind_relation(statement, self._spark.analyzer)
        if statement.connector is not None:
            name, columns, connector = relation.name, relation.columns, statement.connector
            options, key = _options(connector), relation.primary_key
            registry.source(connector.kind, name, columns, options, connector.format, connector.span, key)
        return self._create(statement, relation, ())

    @execute.register(s.CreateView)
    def _(self, statement: s.CreateView) -> Result:
        statement = with_default_emit(statement, self._catalog.value, self._spark.analyzer, self._ledger)
        existing = self._catalog.value.find(statement.name.text)
        times = existing.times if existing is not None else self._ledger.expected_lateness(statement.name.text)
        bound = compile.compile_view(statement, self._catalog.value, self._spark.analyzer, bind.Extras(times=times))
        times = bind.known_times(bound.name, bound.columns, times, self._spark.analyzer)
        return self._create(statement, compile.view_entry(statement, bound, times), bound.warnings)

    @execute.register(s.CreateSink)
    def _(self, statement: s.CreateSink) -> Result:
        relation, view = compile.compile_sink(statement, self._catalog.value, self._spark.analyzer)
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
        relation = with_forced_emit(sink, relation, statement, self._catalog.value, self._spark.analyzer)
        check_fits(sink, relation, statement)
        return self._create(statement, relation, view.warnings if view else ())

    def _create(
        self,
        statement: s.CreateRelation | s.CreateView | s.CreateSink,
        relation: Relation,
        warnings: tuple[errors.Warning_, ...],
    ) -> Result:
        self._check_writable()
        existing = self._catalog.value.find(relation.name)
        if existing is not None and statement.if_not_exists:
            return Result(warnings=warnings, message=f"{existing.name} exists already")
        if statement.or_replace:
            catalog = compile.recompile(
                self._catalog.value.replace(relation, statement.name.span), self._spark.analyzer
            )
            self._captures.forget(self._catalog.value, catalog)
        else:
            catalog = self._catalog.value.create(relation, statement.name.span)
        self._ledger.created(relation.name, self._log.last(), self._inserts.head())
        if existing is None or existing.columns != relation.columns:
            self._log.begin(relation.name, self._log.last())
        self._catalog.replace(catalog)
        return Result(warnings=warnings, message=f"created {relation.described} {relation.name}")

    @execute.register(s.Drop)
    def _(self, statement: s.Drop) -> Result:
        self._check_writable()
        if statement.if_exists and statement.name.text not in self._catalog.value:
            return Result(message=f"{statement.name.text} does not exist")
        relation = self._catalog.value.get(statement.name.text, statement.name.span)
        if relation.kind != statement.kind and not (statement.kind == "stream" and relation.kind in ("source", "view")):
            raise errors.make(
                "UNKNOWN_RELATION",
                message=f"{relation.name} is a {relation.described}, not a {statement.kind}",
                hint=f"write DROP {relation.described.upper()} {relation.name}",
                span=statement.name.span,
            )
        catalog = self._catalog.value.drop(relation.name, cascade=statement.cascade, span=statement.name.span)
        self._captures.forget(self._catalog.value, catalog)
        for gone in {each.name for each in self._catalog.value} - {each.name for each in catalog}:
            self._ledger.dropped(gone)
        self._catalog.replace(catalog)
        return Result(message=f"dropped {relation.name}")

    @execute.register(s.Insert)
    def _(self, statement: s.Insert) -> Result:
        return Result(message=f"{counted(self._changes.insert(statement), 'row')} inserted")

    @execute.register(s.Delete)
    def _(self, statement: s.Delete) -> Result:
        return Result(message=f"{counted(self._changes.delete(statement), 'row')} deleted")

    @execute.register(s.Update)
    def _(self, statement: s.Update) -> Result:
        return Result(message=f"{counted(self._changes.update(statement), 'row')} updated")

    @execute.register(s.RefreshTable)
    def _(self, statement: s.RefreshTable) -> Result:
        self._check_writable()
        self._tables.refresh(statement.name.text, statement.name.span)
        return Result(message=f"table {statement.name.text} was read anew; the next step has it")

    @execute.register(s.Advance)
    def _(self, statement: s.Advance) -> Result:
        relation = self._catalog.value.get(statement.relation.text, statement.relation.span)
        column = relation.column(statement.column.text)
        if column is None:
            hint = errors.did_you_mean(statement.column.text, names(relation.columns), "columns")
            raise errors.make("UNKNOWN_COLUMN", name=statement.column.text, hint=hint, span=statement.column.span)
        found = self._spark.queries.run(f"SELECT CAST(({render(statement.value)}) AS {column.type}) AS v", {})
        value = found.column(0)[0].as_py()
        if value is None:
            raise errors.make(
                "TYPE_MISMATCH",
                message=f"{render(statement.value)} is no value of {column.name}, which is {column.type.upper()}",
                hint=f"write ADVANCE {relation.name}.{column.name} TO a value of that type",
                span=statement.span,
            )
        with self._batch() as batch:
            batch.advance(f"{relation.name}.{column.name}", value)
        return Result(message=f"the watermark of {relation.name}.{column.name} advances with the next step")

    @execute.register(s.Select)
    def _(self, statement: s.Select) -> Result:
        return self.query(statement, None)

    @execute.register(s.Show)
    def _(self, statement: s.Show) -> Result:
        return Result(describe.show(self._catalog.value, self._contents, statement.what))

    @execute.register(s.ShowCreate)
    def _(self, statement: s.ShowCreate) -> Result:
        return Result(describe.show_create(self._catalog.value.get(statement.name.text, statement.name.span)))

    @execute.register(s.Describe)
    def _(self, statement: s.Describe) -> Result:
        relation = self._catalog.value.get(statement.name.text, statement.name.span)
        return Result(describe.describe(relation, statement.extended))

    @execute.register(s.Explain)
    def _(self, statement: s.Explain) -> Result:
        if statement.view is not None:
            found = self.explain_view(statement.view.text, statement.stage)
        else:
            assert statement.query is not None
            found = compile.explain_query(statement.query, self._catalog.value, self._spark.analyzer, statement.stage)
        return Result(pa.table({"plan": str(found).splitlines()}))

    @execute.register(s.Subscribe)
    def _(self, statement: s.Subscribe) -> Result:
        view = self._catalog.value.readable(statement.view.text, statement.view.span)
        subscription = self._subscribe(view.name, from_step=statement.from_step, timeout=0)
        tables = list(subscription.batches())
        return Result(pa.concat_tables(tables) if tables else pa.table({}), message="no changes")

    @execute.register(s.Lateness)
    def _(self, statement: s.Lateness) -> Result:
        self._check_writable()
        name = statement.view.text
        view = self._catalog.value.find(name)
        if view is not None and view.kind != "view":
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"LATENESS {name}.{statement.column.text}: {view.name} is a {view.described}",
                hint=f"write it in CREATE {view.kind.upper()} {view.name}: {statement.column.text} ... LATENESS ...",
                span=statement.view.span,
            )
        note = bind.lateness_note(statement, view, self._spark.analyzer)
        if view is None:
            self._ledger.expect_lateness(name, note)
            return Result(warnings=(errors.warning("LATENESS_VIEW_NOT_FOUND", name=name, span=statement.view.span),))
        others = tuple(each for each in view.times if each.column != note.column)
        catalog = self._catalog.value.replace(replace(view, times=(*others, note)))
        self._catalog.replace(compile.recompile(catalog, self._spark.analyzer))
        return Result(message=f"rows of {view.name} are late below the largest {note.column} less {note.sql}")

    @execute.register(s.Set)
    def _(self, statement: s.Set) -> Result:
        self._check_writable()
        if statement.name not in SETTINGS:
            hint = errors.did_you_mean(statement.name, SETTINGS, "settings")
            raise errors.make(
                "UNKNOWN_OPTION", message=f"there is no setting {statement.name}", hint=hint, span=statement.span
            )
        if statement.name in EARLY_FIRE:
            return self._set_early_fire(statement)
        if not statement.value.isdigit() or int(statement.value) < 1:
            raise errors.make(
                "INVALID_OPTION",
                message=f"{statement.name} is '{statement.value}', it should be a number of steps",
                hint=f"write SET {statement.name} = 1000",
                span=statement.span,
            )
        self._ledger.set(statement.name, statement.value)
        return Result(message=f"{statement.name} = {statement.value}")

    def _set_early_fire(self, statement: s.Set) -> Result:
        """Flink's settings: windows without an EMIT then emit every so often."""
        enabled = statement.name == EARLY_FIRE[0]
        fits = statement.value.lower() in ("true", "false") if enabled else parse_micros(statement.value)
        if not fits:
            expected = "'true' or 'false'" if enabled else EXPECTED_POSITIVE
            raise errors.make(
                "INVALID_OPTION", name=statement.name, value=statement.value, expected=expected, span=statement.span
            )
        self._ledger.set(statement.name, statement.value)
        return Result(message=f"{statement.name} = {statement.value}")

    def query(self, statement: s.Statement, as_of: int | None) -> Result:
        """An ad-hoc SELECT, or another statement that only shows something."""
        if isinstance(statement, s.Select):
            return Result(self._contents.select(statement.query, as_of))
        if isinstance(statement, s.Show | s.ShowCreate | s.Describe | s.Explain | s.Subscribe):
            return self.execute(statement)
        raise errors.make(
            "SYNTAX_ERROR", message="a query begins with SELECT, SHOW, DESCRIBE or EXPLAIN", span=statement.span
        )

    def explain_view(self, name: str, stage: str) -> Explanation:
        """The plan of an existing view."""
        relation = self._catalog.value.get(name)
        catalog, begun = self._catalog.value, self._ledger.begun()
        return compile.explain_relation(relation, catalog, self._spark.analyzer, stage, begun)


def _options(connector: s.Connector) -> list[tuple[str, str, errors.Span | None]]:
    return [(option.key, option.value, option.span) for option in connector.options]
