"""The conductor: a database is a data folder, a catalog and at most one running pipeline.

Text becomes statements (sql), statements become catalog entries with a plan (bind), the catalog becomes a circuit
(circuit), the circuit runs on Spark (spark), and what leaves it is in the step log (runtime).
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
from tidegate.catalog import Catalog, store
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.core.schema import Schema
from tidegate.core.secrets import mask_sql
from tidegate.plan.explain import Explanation
from tidegate.runtime.batch import Batch
from tidegate.runtime.captures import Captures
from tidegate.runtime.monitoring import Totals
from tidegate.runtime.readiness import readiness
from tidegate.runtime.refreshing import Refresher, load_tables, next_refresh, refresh_table
from tidegate.runtime.reinjection import Reinjection
from tidegate.runtime.results import Change, Result, StepReport
from tidegate.runtime.sinks import Sinks
from tidegate.runtime.subscription import Subscription, changes_of, inserted, visible
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_log import StepLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.engine import Engine

VIRTUAL_EPOCH_US = 1_577_836_800_000_000
DEFAULT_RETENTION = 1000


class Database:
    """One data folder with what runs in it. Made by `tidegate.connect`."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        master: str | None = None,
        config: Mapping[str, str] | None = None,
        clock: str = "wall",
        read_only: bool = False,
    ) -> None:
        if clock not in ("wall", "virtual"):
            raise errors.make(
                "INVALID_OPTION", message=f"clock is '{clock}'", hint="write clock='wall' or clock='virtual'"
            )
        self._temporary = tempfile.TemporaryDirectory(prefix="tidegate-") if path is None else None
        self.folder = Folder(Path(self._temporary.name if self._temporary else str(path)))
        self.folder.open(read_only)
        self._spark, self._master, self._config = spark, master, dict(config or {})
        self._virtual, self.read_only = clock == "virtual", read_only
        self.catalog = store.load(self.folder.catalog)
        self.inserts, self.log = InsertLog(self.folder.inserts), StepLog(self.folder)
        self.log.refresh()
        self.ledger = Ledger(self.folder)
        self.sinks = Sinks(self.folder, self.log)
        self.captures = Captures(self)
        self.results = Reinjection(self.folder.root, self.log, self.inserts)
        self.inserts.clock = self.now_us
        self.totals = Totals()
        self._engine: Engine | None = None
        self._closed = False
        self._refresher: Refresher | None = None
        if not read_only:
            self.inserts.open_for_writing()

    @property
    def engine(self) -> Engine:
        """Spark behind the database, started when it is first needed."""
        if self._engine is None:
            from tidegate.spark.engine import Engine

            self._engine = Engine.connect(
                self.folder, self.log, self.inserts, self._spark, self._master, self._config, wall=not self._virtual
            )
            self._engine.on_step(self._after_step)
            if self._virtual and self._engine.clock_us() == 0:
                self._engine.set_time(VIRTUAL_EPOCH_US)
        return self._engine

    def now_us(self) -> int:
        """The processing clock, in microseconds since 1970."""
        return self.engine.clock_us() if self._virtual else time.time_ns() // 1000

    def sql(self, text: str) -> Result:
        """Runs one or many statements; the last one's result. What came before a refused statement stays."""
        from tidegate.runtime.execute import execute

        result = Result()
        script = sql.parse(text)
        warnings: list[errors.Warning_] = []
        for statement in script.statements:
            with self._located(script.text):
                result = execute(statement, self)
            warnings += result.warnings
        return Result(result.table, tuple(warnings), result.message)

    def run_script(self, text: str, origin: str = "script") -> Result:
        """Runs a script that may have been run on this folder before: what was applied then is skipped; a definition
        that has changed since is refused."""
        from tidegate.runtime.execute import execute
        from tidegate.runtime.script import changed

        result = Result()
        script = sql.parse(text)
        for statement in script.statements:
            with self._located(script.text):
                if self.ledger.applied(origin, statement.text):
                    continue
                changed(statement, self.catalog)
                result = execute(statement, self)
            self.ledger.record(origin, statement.text)
        return result

    def insert(self, relation: str, rows: Any) -> None:
        """Adds rows to a source or table; durable when it returns."""
        with self.batch() as batch:
            batch.insert(relation, rows)

    def delete(self, relation: str, rows: Any) -> None:
        """Takes rows out of a table."""
        with self.batch() as batch:
            batch.delete(relation, rows)

    def batch(self) -> Batch:
        """Changes of several relations as one atomic step: `with db.batch() as b: ...`."""
        self._writable()
        return Batch(lambda: self.catalog, self.inserts, self._on_events)

    def advance(self, column: str, value: Any) -> None:
        """Moves the frontier of `relation.column`."""
        with self.batch() as batch:
            batch.advance(column, value)

    def step(self) -> StepReport:
        """Runs until nothing more can happen, and says what did."""
        before = self.log.last()
        self._load_tables()
        self._catch_up()
        if self._launch(release=self.inserts.head()):
            self.engine.idle()
        return self._report(before)

    def start(self, progress: Callable[[Mapping[str, float]], None] | None = None) -> None:
        """Runs continuously, in the background. Returns when every table that a connector fills is ready; meanwhile
        `progress` is told now and then how much of those that are not has been read, from 0 to 1."""
        self._load_tables()
        started = self._launch(follow=True)
        self.captures.start()
        if started:
            self._await_tables(progress)
        if self._refresher is None and next_refresh(self) is not None:
            self._refresher = Refresher(self)

    def refresh(self, table: str) -> None:
        """Reads a table anew that is read when it is told to (`refresh = 'manual'`); the next step has it."""
        self._writable()
        refresh_table(self, table)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the pipeline stops, or for so many seconds; whether it still runs. Raises what ended it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.running_now and (deadline is None or time.monotonic() < deadline):
            left = 0.1 if deadline is None else max(0.0, min(0.1, deadline - time.monotonic()))
            with self.log.arrived:
                self.log.arrived.wait(left)
            self._alive()
        self._alive()
        return self.running_now

    @property
    def running_now(self) -> bool:
        return self._engine is not None and self._engine.active

    def stop(self) -> None:
        """Ends the pipeline between two steps. It goes on from there when it is started again."""
        if self._refresher is not None:
            self._refresher.stop()
            self._refresher = None
        self.captures.stop()
        if self._engine is not None:
            self._engine.stop()
        self.sinks.settle()

    @contextlib.contextmanager
    def running(self) -> Iterator[Database]:
        """`with db.running():` - started inside, stopped after."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def run_once(self) -> StepReport:
        """Runs until every bounded input has ended."""
        before = self.log.last()
        self._load_tables()
        self._catch_up()
        if self._launch(once=True):
            self.engine.idle()
            self.engine.end()
            self.engine.idle()
        self.stop()
        return self._report(before)

    def query(self, text: str, as_of: int | None = None) -> Result:
        """The rows of an ad-hoc SELECT, now or as they were after a step."""
        from tidegate.runtime.execute import query

        script = sql.parse(text)
        if len(script.statements) != 1:
            raise errors.make("SYNTAX_ERROR", message="query takes one SELECT", hint="use sql() for several statements")
        with self._located(script.text):
            return query(script.statements[0], self, as_of)

    def subscribe(
        self, relation: str, *, from_step: int | None = None, snapshot: bool = False, timeout: float | None = None
    ) -> Subscription:
        """The changes of a table or view: from now on, or from a step on (inclusive), or its content first."""
        from tidegate.runtime.contents import content

        self.log.refresh()
        entry = self.catalog.readable(relation)
        if not entry.kept and entry is not EVENTS:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{entry.name} is a {entry.described}: its changes are not kept",
                hint=f"CREATE MATERIALIZED VIEW ... AS SELECT * FROM {entry.name}, and subscribe to that",
            )
        last = self.log.last()
        first = None
        if snapshot:
            first = inserted(content(self, entry.name, last), last)
        after = last if from_step is None else from_step - 1
        return Subscription(self.log, entry.name, after, entry.changes == "upsert", timeout, first, self._alive)

    def changes(self, relation: str, from_step: int = 1, to_step: int | None = None) -> list[Change]:
        """The logged changes of a relation in a range of steps, both ends included."""
        entry = self.catalog.readable(relation)
        self.log.refresh()
        end = self.log.last() if to_step is None else to_step
        found: list[Change] = []
        for step, table in self.log.changes(entry.name, from_step - 1, end):
            found += changes_of(visible(table, step, entry.changes == "upsert"))
        return found

    def explain(self, view: str, stage: str = "circuit") -> Explanation:
        """The plan of a view after one of the stages parsed, bound, rewritten, circuit."""
        from tidegate.runtime.execute import explain_view

        return explain_view(self, view, stage)

    def schema(self, relation: str) -> Schema:
        """The columns of a relation."""
        return self.catalog.readable(relation).columns

    def kind(self, view: str) -> str:
        """How a view changes: append, upsert or changelog."""
        return self.catalog.get(view).changes

    def tables(self) -> list[str]:
        return [relation.name for relation in self.catalog.of_kind("table")]

    def views(self) -> list[str]:
        return [relation.name for relation in self.catalog.of_kind("view")]

    def metrics(self) -> dict[str, Any]:
        """Counters and rates over the recent steps, for displays and monitoring."""
        from tidegate.runtime.metrics import metrics

        return metrics(self.log, self.catalog)

    def advance_clock(self, by: timedelta) -> None:
        """Moves the virtual clock; the next step sees it."""
        if not self._virtual:
            raise errors.make("INVALID_OPTION", message="the clock is the wall clock", hint="connect(clock='virtual')")
        self.engine.set_time(self.engine.clock_us() + round(by.total_seconds() * 1_000_000))

    def end_inputs(self) -> None:
        """The end of all inputs: every frontier goes to infinity."""
        self._writable()
        self.engine.end()

    def close(self) -> None:
        """Stops, and lets go of the folder. The Spark session stays, unless it was made for this database alone."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        if self._temporary is not None:
            self.captures.forget(self.catalog, Catalog())
        self.sinks.close()
        self.results.close()
        self.folder.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def replace_catalog(self, catalog: Catalog) -> None:
        """Makes a catalog the current one, durably."""
        self._writable()
        self.catalog = catalog
        store.save(catalog, self.folder.catalog)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self, release: int | None = None, once: bool = False, follow: bool = False) -> bool:
        """Makes the pipeline run what the catalog says; False if there is nothing to run. `follow`: it goes on."""
        self._writable()
        started = self.engine.run(self.catalog, self.ledger, release, once)
        self._return_results()
        self.sinks.open(self.catalog, self.ledger.begun(), follow)
        return started

    def _return_results(self) -> None:
        """Results of views over the event bus go back to it."""
        if self.results.apply(self.engine.returning(self.catalog, self.ledger)):
            self.engine.release_own()

    def _on_events(self) -> None:
        """Events were given: from now on they are logged."""
        if BUS not in self.ledger.begun():
            self.ledger.created(BUS, 0, 0)

    def _catch_up(self) -> None:
        """Takes in what captures find now."""
        try:
            self.captures.catch_up()
        except OSError as problem:
            hint = "check that it runs, then start again"
            raise errors.make("PIPELINE_FAILED", message=str(problem), hint=hint) from problem

    def _load_tables(self) -> None:
        self._writable()
        if any(relation.connector is not None for relation in self.catalog.of_kind("table")):
            load_tables(self)

    def _await_tables(self, progress: Callable[[Mapping[str, float]], None] | None) -> None:
        """Waits for the first step in which every table was read to its end."""
        while self.running_now:
            self.captures.check()
            missing = [name for name, ready in readiness(self).items() if not ready]
            if not missing:
                return
            with self.log.arrived:
                self.log.arrived.wait(0.1)
            if progress is not None:
                progress(dict.fromkeys(missing, self.engine.done()))
        self._alive()

    def _after_step(self, step: int) -> None:
        self.totals.add(self.log.header(step))
        self._return_results()
        self.sinks.apply()
        self.engine.maintain(self.catalog, self.ledger.retention(DEFAULT_RETENTION), self.sinks)

    def _alive(self) -> None:
        self.captures.check()
        self.sinks.check()
        if self._engine is not None:
            self._engine.check()

    def _report(self, before: int) -> StepReport:
        headers = [header for header in self.log.headers() if header.step > before]
        rows_in: Counter[str] = Counter()
        rows_out: Counter[str] = Counter()
        for header in headers:
            rows_in.update(header.rows_in)
            rows_out.update({name: changed.rows for name, changed in header.changes_per_relation().items()})
        late, rejected = sum(header.late_count for header in headers), sum(len(header.errors) for header in headers)
        return StepReport(range(before + 1, self.log.last() + 1), dict(rows_in), dict(rows_out), late, rejected)

    def _writable(self) -> None:
        if self._closed:
            raise errors.make("DATABASE_CLOSED")
        if self.read_only:
            raise errors.make("READ_ONLY", folder=str(self.folder.root))

    @contextlib.contextmanager
    def _located(self, text: str) -> Iterator[None]:
        """An error without a text points into this one."""
        try:
            yield
        except errors.Error as error:
            if error.text is None:
                error.text = mask_sql(text)
            raise


def connect(
    path: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    clock: str = "wall",
    read_only: bool = False,
) -> Database:
    """Opens the database in a folder (a new temporary one if none is given).

    `spark` is a session of yours, else one is made for `master` (default local[*]) with `config` added to our settings.
    `clock="virtual"` moves only when told to. `read_only` looks at a folder that another process may be running.
    """
    return Database(path, spark=spark, master=master, config=config, clock=clock, read_only=read_only)


__all__: Sequence[str] = ["Database", "connect"]
