"""Executes statements: what each does to a database, and the result it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial, singledispatchmethod
from typing import Any

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
from tidegate.runtime.literal_secrets import without_secrets
from tidegate.runtime.polled_tables import PolledTables
from tidegate.runtime.results import Result
from tidegate.runtime.sink_definitions import check_fits, visible_key
from tidegate.runtime.subscription import Subscription
from tidegate.spark.connection import SparkConnection
from tidegate.sql import render
from tidegate.sql import statements as s
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger, ScriptStatement
from tidegate.storage.secrets_file import Secrets
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
        batch: Callable[..., Batch],
        subscribe: Callable[..., Subscription],
        check_writable: Callable[[], None],
        secrets: Secrets,
    ) -> None:
        self._catalog, self._ledger, self._log, self._inserts = catalog, ledger, log, inserts
        self._spark, self._contents, self._tables, self._captures = spark, contents, tables, captures
        self._batch, self._subscribe, self._check_writable = batch, subscribe, check_writable
        self._secrets = secrets
        self._script: ScriptStatement | None = None
        self._arguments: Mapping[str, Any] = {}

    def for_script(self, statement: ScriptStatement) -> StatementExecutor:
        """An executor that records this statement as applied in the write that applies it, if it cannot be repeated:
        in the entry of the insert log, or in the ledger."""
        executor = copy(self)
        executor._script, executor._batch = statement, partial(self._batch, statement)
        return executor

    def with_arguments(self, arguments: Mapping[str, Any]) -> StatementExecutor:
        """An executor for statements with parameters: `arguments` are their values by name."""
        executor = copy(self)
        executor._arguments = arguments
        return executor

    @singledispatchmethod
    def execute(self, statement: s.Statement) -> Result:
        """Execute one statement."""
        raise errors.make("NOT_SUPPORTED", message="this statement cannot be run here", span=statement.span)

    @execute.register(s.CreateRelation)
    def _(self, statement: s.CreateRelation) -> Result:
        statement = without_secrets(statement, self._secrets)
        relation = bind.bind_relation(statement, self._spark.analyzer)
        if statement.connector is not None:
            name, columns, connector = relation.name, relation.columns, statement.connector
            options, key = _options(connector), relation.primary_key
            registry.source(connector.kind, name, columns, options, connector.format, connector.span, key)
        return self._create(statement, relation, ())

    @execute.register(s.CreateView)
    def _(self, statement: s.CreateView) -> Result:
        statement = without_secrets(statement, self._secrets)
        statement = with_default_emit(statement, self._catalog.value, self._spark.analyzer, self._ledger)
        existing = self._catalog.value.find(statement.name.text)
        times = existing.times if existing is not None else self._ledger.expected_lateness(statement.name.text)
        bound = compile.compile_view(statement, self._catalog.value, self._spark.analyzer, bind.Extras(times=times))
        bind.check_constants(bound.bound, self._spark.analyzer)
        times = bind.check_times(bound.name, bound.columns, times, self._spark.analyzer)
        return self._create(statement, compile.view_entry(statement, bound, times), bound.warnings)

    @execute.register(s.CreateSink)
    def _(self, statement: s.CreateSink) -> Result:
        statement = without_secrets(statement, self._secrets)
        relation, view = compile.compile_sink(statement, self._catalog.value, self._spark.analyzer)
        if view is not None:
            bind.check_constants(view.bound, self._spark.analyzer)
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
        self._secrets.save()
        self._ledger.created(relation.name, self._log.last(), self._inserts.head())
        if existing is None or existing.columns != relation.columns:
            self._log.begin(relation.name, self._log.last())
        self._catalog.replace(catalog)
        return Result(warnings=warnings, message=f"created {relation.described} {relation.name}")

    @execute.register(s.Drop)
    def _(self, statement: s.Drop) -> Result:
        self._check_writable()
        name = statement.name.text
        if name not in self._catalog.value and self._ledger.remembers(name):
            return self._finish_drop(name)
        if statement.if_exists and name not in self._catalog.value:
            return Result(message=f"{name} does not exist")
        relation = self._catalog.value.get(name, statement.name.span)
        if relation.kind != statement.kind and not (statement.kind == "stream" and relation.kind in ("source", "view")):
            raise errors.make(
                "UNKNOWN_RELATION",
                message=f"{relation.name} is a {relation.described}, not a {statement.kind}",
                hint=f"write DROP {relation.described.upper()} {relation.name}",
                span=statement.name.span,
            )
        catalog = self._catalog.value.drop(relation.name, cascade=statement.cascade, span=statement.name.span)
        self._captures.forget(self._catalog.value, catalog)
        dropped = {each.name for each in self._catalog.value} - {each.name for each in catalog}
        self._catalog.replace(catalog)
        self._ledger.dropped(dropped, self._script)
        return Result(message=f"dropped {relation.name}")

    def _finish_drop(self, name: str) -> Result:
        """Finish a DROP of a process that died after it wrote the catalog and before it wrote the ledger."""
        self._ledger.dropped(
            [each for each in self._ledger.start_steps() if each not in self._catalog.value], self._script
        )
        return Result(message=f"dropped {name}")

    @execute.register(s.Insert)
    def _(self, statement: s.Insert) -> Result:
        return Result(message=f"{counted(self._changes().insert(statement), 'row')} inserted")

    @execute.register(s.Delete)
    def _(self, statement: s.Delete) -> Result:
        return Result(message=f"{counted(self._changes().delete(statement), 'row')} deleted")

    @execute.register(s.Update)
    def _(self, statement: s.Update) -> Result:
        return Result(message=f"{counted(self._changes().update(statement), 'row')} updated")

    def _changes(self) -> DataChanges:
        return DataChanges(self._catalog, self._contents, self._spark, self._batch, self._arguments)

    @execute.register(s.RefreshTable)
    def _(self, statement: s.RefreshTable) -> Result:
        self._check_writable()
        return Result(message=self._tables.refresh(statement.name.text, statement.name.span))

    @execute.register(s.Advance)
    def _(self, statement: s.Advance) -> Result:
        relation = self._catalog.value.get(statement.relation.text, statement.relation.span)
        column = relation.column(statement.column.text)
        if column is None:
            hint = errors.did_you_mean(statement.column.text, names(relation.columns), "columns")
            raise errors.make("UNKNOWN_COLUMN", name=statement.column.text, hint=hint, span=statement.column.span)
        text = f"SELECT CAST(({render(statement.value)}) AS {column.type}) AS v"
        value = self._spark.queries.run(text, {}, self._arguments).column(0)[0].as_py()
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
            explanation = self.explain_view(statement.view.text, statement.stage)
        else:
            assert statement.query is not None
            explanation = compile.explain_query(
                statement.query, self._catalog.value, self._spark.analyzer, statement.stage
            )
        return Result(pa.table({"plan": str(explanation).splitlines()}))

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
        if not view.stored:
            # It is maintained from now on.
            self._ledger.created(view.name, self._log.last(), self._inserts.head())
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
        """Flink's early-fire settings: windows without an EMIT then emit periodically."""
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
        """An ad-hoc SELECT, or another statement that only reads."""
        if isinstance(statement, s.Select):
            return Result(self._contents.select(statement.query, as_of, self._arguments))
        if isinstance(statement, s.Show | s.ShowCreate | s.Describe | s.Explain | s.Subscribe):
            return self.execute(statement)
        raise errors.make(
            "SYNTAX_ERROR", message="a query begins with SELECT, SHOW, DESCRIBE or EXPLAIN", span=statement.span
        )

    def explain_view(self, name: str, stage: str) -> Explanation:
        """The plan of an existing view."""
        relation = self._catalog.value.get(name)
        catalog, start_steps = self._catalog.value, self._ledger.start_steps()
        return compile.explain_relation(relation, catalog, self._spark.analyzer, stage, start_steps)


def _options(connector: s.Connector) -> list[tuple[str, str, errors.Span | None]]:
    return [(option.key, option.value, option.span) for option in connector.options]
