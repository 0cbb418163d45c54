"""The facade: a database is a data folder, a catalog and at most one running pipeline.

Text becomes statements (sql), statements become catalog entries with a plan (bind), the catalog becomes a circuit
(circuit), the circuit runs on Spark (spark), and what leaves it is in the step log (storage).
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import errors, sql
from tidegate.catalog import Catalog
from tidegate.core.schema import Schema
from tidegate.plan.explain import Explanation
from tidegate.runtime.batch import Batch
from tidegate.runtime.boundary import Boundary, data_path, public
from tidegate.runtime.execute import StatementExecutor
from tidegate.runtime.metrics import metrics
from tidegate.runtime.parameters import Parameters, bind_parameters
from tidegate.runtime.python_values import excerpt
from tidegate.runtime.results import Change, Result, StepReport
from tidegate.runtime.runtime import Runtime
from tidegate.runtime.subscription import Subscription, changes_of, visible
from tidegate.sql.statements import Script
from tidegate.storage.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Database:
    """One data folder and its pipeline. Created by `tidegate.connect`."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        master: str | None = None,
        config: Mapping[str, str] | None = None,
        clock: str = "wall",
        read_only: bool = False,
        skip_poison: bool = False,
    ) -> None:
        if clock not in ("wall", "virtual"):
            raise errors.make(
                "INVALID_OPTION", message=f"clock is '{clock}'", hint="write clock='wall' or clock='virtual'"
            )
        root = data_path(path)
        if config is not None and not isinstance(config, Mapping):
            raise errors.make("INVALID_ARGUMENT", name="config", value=excerpt(config), expected="a dict of settings")
        if master is not None and not isinstance(master, str):
            raise errors.make("INVALID_ARGUMENT", name="master", value=excerpt(master), expected="an address, as text")
        if spark is not None and not hasattr(spark, "sparkContext"):
            raise errors.make("INVALID_ARGUMENT", name="spark", value=excerpt(spark), expected="a SparkSession")
        self._temporary = tempfile.TemporaryDirectory(prefix="tidegate-") if root is None else None
        folder = Folder(Path(self._temporary.name) if self._temporary else root or Path())
        self._virtual = clock == "virtual"
        with _storage_errors(), contextlib.ExitStack() as undo:
            undo.callback(folder.close)
            folder.open(read_only)
            self._runtime = Runtime(
                folder,
                spark=spark,
                master=master,
                config=config or {},
                virtual=self._virtual,
                read_only=read_only,
                skip_poison=skip_poison,
            )
            undo.pop_all()

    @property
    def boundary(self) -> Boundary:
        """What every call goes through; not part of the public interface."""
        return self._runtime.boundary

    @property
    def path(self) -> Path:
        """The data folder."""
        return self._runtime.folder.root

    @property
    def read_only(self) -> bool:
        return self._runtime.read_only

    @public
    def sql(self, text: str, params: Parameters | None = None) -> Result:
        """Run one or many statements; the last one's result. What came before a rejected statement stays.

        `params` are the values of parameters: a list for `?`, in the order of the text, or a dict for `:name`."""
        result = Result()
        script, statements = self._bound(text, params)
        warnings: list[errors.Warning_] = []
        for statement in script.statements:
            with _located(script.text, statement.span):
                result = statements.execute(statement)
            warnings += result.warnings
        return Result(result.table, tuple(warnings), result.message)

    @public
    def run_script(self, text: str, origin: str = "script") -> Result:
        """Run a script that may have been run on this folder before: statements that were applied are skipped, a
        definition that has changed since is an error. A script that was interrupted continues where it stopped."""
        result = Result()
        script, _ = self._bound(text, None)
        for statement in script.statements:
            with _located(script.text, statement.span):
                result = self._runtime.scripts.run(statement, origin) or result
        return result

    @public
    def insert(self, relation: str, rows: Any) -> None:
        """Add rows to a source or table; durable when it returns."""
        with self.batch() as batch:
            batch.insert(relation, rows)

    @public
    def delete(self, relation: str, rows: Any) -> None:
        """Delete rows of a table."""
        with self.batch() as batch:
            batch.delete(relation, rows)

    @public
    def batch(self) -> Batch:
        """Changes of several relations as one atomic step: `with db.batch() as b: ...`."""
        return self._runtime.batch()

    @public
    def advance(self, column: str, value: Any) -> None:
        """Move the watermark of `relation.column`."""
        with self.batch() as batch:
            batch.advance(column, value)

    @public
    def step(self) -> StepReport:
        """Run until nothing more can happen, and report what did."""
        before = self._runtime.log.last()
        self._runtime.load_tables()
        self._runtime.catch_up()
        if self._runtime.launch(release=self._runtime.inserts.head()):
            self._runtime.spark.pipeline.idle_to_the_end()
        return self._report(before)

    @public
    def start(self, progress: Callable[[Mapping[str, float]], None] | None = None) -> None:
        """Run continuously, in the background. Returns when every table that a connector fills is ready; meanwhile
        `progress` is called with how much of each other table has been read, from 0 to 1."""
        self._runtime.load_tables()
        if not self._runtime.catch_up_tables(progress):
            return
        started = self._runtime.launch(follow=True)
        self._runtime.captures.start()
        if started:
            self._runtime.await_tables(progress)
        self._runtime.tables.start_polling()

    @public
    def refresh(self, table: str) -> None:
        """Read a table with `refresh = 'manual'` again, or the files of a source or table that could not be read; the
        next step contains them."""
        self._runtime.check_writable()
        self._runtime.tables.refresh(table)

    @public
    def wait(self, timeout: float | None = None) -> bool:
        """Block until the pipeline stops or `timeout` elapses; True while it is still running. Raises what ended it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        log = self._runtime.log
        while self.running_now and (deadline is None or time.monotonic() < deadline):
            left = 0.1 if deadline is None else max(0.0, min(0.1, deadline - time.monotonic()))
            with log.arrived:
                log.arrived.wait(left)
            self._runtime.check()
        self._runtime.check()
        return self.running_now

    @property
    def running_now(self) -> bool:
        """True while the pipeline runs in the background."""
        with self.boundary.translated():
            return not self._runtime.closed and self._runtime.spark.running

    def stop(self) -> None:
        """End the pipeline between two steps. It resumes there when it is started again."""
        if not self._runtime.closed:
            with self.boundary.translated():
                self._runtime.stop()

    @contextlib.contextmanager
    def running(self) -> Iterator[Database]:
        """`with db.running():` starts the pipeline, and stops it at the end."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    @public
    def run_once(self) -> StepReport:
        """Run until every bounded input has ended."""
        before = self._runtime.log.last()
        self._runtime.load_tables()
        self._runtime.catch_up()
        if self._runtime.launch(once=True):
            pipeline = self._runtime.spark.pipeline
            pipeline.idle()
            pipeline.clock.end()
            pipeline.idle_to_the_end()
        self.stop()
        return self._report(before)

    @public
    def query(self, text: str, as_of: int | None = None, params: Parameters | None = None) -> Result:
        """The rows of an ad-hoc SELECT, now or as they were after a step. `params`: as for `sql`."""
        script, statements = self._bound(text, params)
        if len(script.statements) != 1:
            raise errors.make("SYNTAX_ERROR", message="query takes one SELECT", hint="use sql() for several statements")
        with _located(script.text, script.statements[0].span):
            return statements.query(script.statements[0], as_of)

    @public
    def subscribe(
        self, relation: str, *, from_step: int | None = None, snapshot: bool = False, timeout: float | None = None
    ) -> Subscription:
        """The changes of a table or view: from now on, or from a step on (inclusive), or its content first."""
        return self._runtime.subscribe(relation, from_step=from_step, snapshot=snapshot, timeout=timeout)

    @public
    def changes(self, relation: str, from_step: int = 1, to_step: int | None = None) -> list[Change]:
        """The logged changes of a relation in a range of steps, both ends included."""
        entry, log = self._runtime.catalog.value.readable(relation), self._runtime.log
        log.refresh()
        end = log.last() if to_step is None else to_step
        tables = log.changes(entry.name, from_step - 1, end)
        return [
            change for step, table in tables for change in changes_of(visible(table, step, entry.changes == "upsert"))
        ]

    @public
    def explain(self, view: str, stage: str = "circuit") -> Explanation:
        """The plan of a view after one of the stages parsed, bound, rewritten, circuit."""
        return self._runtime.statements.explain_view(view, stage)

    @public
    def schema(self, relation: str) -> Schema:
        """The columns of a relation."""
        return self._runtime.catalog.value.readable(relation).columns

    @public
    def kind(self, view: str) -> str:
        """The changelog kind of a view: append, upsert or changelog."""
        return self._runtime.catalog.value.get(view).changes

    @public
    def sources(self) -> list[str]:
        """The names of all sources."""
        return self._names("source")

    @public
    def tables(self) -> list[str]:
        """The names of all tables."""
        return self._names("table")

    @public
    def views(self) -> list[str]:
        """The names of all views."""
        return self._names("view")

    @public
    def sinks(self) -> list[str]:
        """The names of all sinks."""
        return self._names("sink")

    @public
    def metrics(self) -> dict[str, Any]:
        """Counters and rates over the recent steps, for displays and monitoring."""
        return metrics(self._runtime.log, self._runtime.catalog.value, self._runtime.opened)

    @public
    def advance_clock(self, by: timedelta) -> None:
        """Move the virtual clock; the next step sees it."""
        if not self._virtual:
            raise errors.make("INVALID_OPTION", message="the clock is the wall clock", hint="connect(clock='virtual')")
        clock = self._runtime.spark.pipeline.clock
        clock.set_time(clock.next_us() + round(by.total_seconds() * 1_000_000))

    @public
    def end_inputs(self) -> None:
        """End all inputs after the rows of the next step: every watermark goes to infinity."""
        self._runtime.check_writable()
        self._runtime.spark.pipeline.clock.end()

    def close(self) -> None:
        """Stop, and release the folder. The Spark session stays, unless it was made for this database alone."""
        if self._runtime.closed:
            return
        self._runtime.closed = True
        try:
            with self.boundary.translated():
                self._runtime.stop()
                if self._temporary is not None:
                    self._runtime.captures.forget(self._runtime.catalog.value, Catalog())
        finally:
            self._runtime.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def __enter__(self) -> Database:
        self.boundary.require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bound(self, text: str, params: Parameters | None) -> tuple[Script, StatementExecutor]:
        """The statements of a text, and an executor that has the values of their parameters."""
        script = sql.parse(text)
        with _located(text):
            arguments = bind_parameters(script, params)
        return script, self._runtime.statements.with_arguments(arguments)

    def _names(self, kind: str) -> list[str]:
        return [relation.name for relation in self._runtime.catalog.value.of_kind(kind)]

    def _report(self, before: int) -> StepReport:
        headers = [header for header in self._runtime.log.headers() if header.step > before]
        rows_in: Counter[str] = Counter()
        rows_out: Counter[str] = Counter()
        for header in headers:
            rows_in.update(header.rows_in)
            rows_out.update({name: changed.rows for name, changed in header.changes_per_relation().items()})
        late = sum(self._runtime.log.late_count(header) for header in headers)
        rejected = sum(len(header.errors) for header in headers)
        steps = range(before + 1, self._runtime.log.last() + 1)
        return StepReport(steps, dict(rows_in), dict(rows_out), late, rejected)


@contextlib.contextmanager
def _located(text: str, statement: errors.Span | None = None) -> Iterator[None]:
    """Let an error without a text point into this one, and one without a place to what it is about."""
    try:
        yield
    except errors.Error as error:
        if error.text is None:
            error.text = text
            if error.span is None and statement is not None and isinstance(error, errors.SqlError):
                error.span = sql.find_place(text, statement, error.near)
        raise
    except RecursionError:
        raise errors.too_deep(text, statement and sql.find_place(text, statement, ())) from None


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    """Raise STORAGE_FAILED for failures of the file system while a folder is opened."""
    try:
        yield
    except OSError as problem:
        raise errors.storage_error(problem) or problem from problem


def runtime_of(database: Database) -> Runtime:
    """The parts behind a database, for the command line and for tests; not part of the public interface."""
    return database._runtime


def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    clock: str = "wall",
    read_only: bool = False,
    skip_poison: bool = False,
) -> Database:
    """Open the database in a folder; a new temporary one without `path`.

    `spark` is your own session; without it one is created for `master` (default local[*]) with `config` added to our
    settings. `clock="virtual"` moves only by `advance_clock`. `read_only` opens a folder that another process may run.
    With `skip_poison`, no row ends the pipeline: views with `on_error = 'stop'` go on after it is recorded.
    """
    return Database(
        path, spark=spark, master=master, config=config, clock=clock, read_only=read_only, skip_poison=skip_poison
    )


__all__: Sequence[str] = ["Database", "connect"]
