"""The parts behind one open data folder, wired together, and what happens around a step."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate import errors
from tidegate.catalog.bus import BUS, EVENTS, complete_events
from tidegate.connectors.contract import StreamSource
from tidegate.connectors.webhook.dead_letters import dead_letters
from tidegate.core.types import arrow_schema
from tidegate.runtime.batch import Batch
from tidegate.runtime.boundary import Boundary
from tidegate.runtime.captures import Captures
from tidegate.runtime.contents import Contents
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.definitions import Definitions
from tidegate.runtime.event_results import EventResults
from tidegate.runtime.execute import StatementExecutor
from tidegate.runtime.known_keys import KnownKeys
from tidegate.runtime.monitoring import Totals
from tidegate.runtime.polled_tables import PolledTables
from tidegate.runtime.readiness import Readiness, Shares
from tidegate.runtime.script import ScriptRunner
from tidegate.runtime.sinks import Sinks
from tidegate.runtime.state import StateSizes
from tidegate.runtime.subscription import Subscription, inserted
from tidegate.runtime.system import SystemRelations
from tidegate.spark.connection import SparkConnection
from tidegate.storage.folder import Folder
from tidegate.storage.generations import GenerationFiles
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.integrity import check_complete, remove_leftovers
from tidegate.storage.ledger import Ledger, ScriptStatement
from tidegate.storage.objects import LocalStorage
from tidegate.storage.secrets_file import Secrets
from tidegate.storage.step_log import StepLog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

DEFAULT_RETENTION = 1000
COMPACT_EVERY = 50
UNREACHABLE_SECONDS = 1.0
"""The pause between two attempts to read a new table whose server cannot be reached."""


class Runtime:
    """What a `Database` is made of. Each part takes the parts it needs, never this object."""

    def __init__(
        self,
        folder: Folder,
        *,
        spark: SparkSession | None,
        master: str | None,
        config: Mapping[str, str],
        virtual: bool,
        read_only: bool,
        skip_poison: bool,
    ) -> None:
        self.folder, self.read_only, self.closed = folder, read_only, False
        self.opened = 0.0 if read_only else time.time()
        self.boundary = Boundary(lambda: self.closed, lambda: self.spark.lost())
        self.catalog = CurrentCatalog(folder.storage, follow=read_only)
        self.inserts, self.log = InsertLog(LocalStorage(folder.inserts)), StepLog(folder.storage)
        self.ledger, self.secrets = Ledger(folder.storage), Secrets(folder)
        check_complete(folder, self.log, self.inserts)
        if not read_only:
            remove_leftovers(folder, self.log)
            self.secrets.remove_unused()
        self.spark = SparkConnection(
            folder,
            self.log,
            self.inserts,
            self._after_step,
            given=spark,
            master=master,
            config=config,
            wall=not virtual,
            skip_poison=skip_poison,
        )
        self.definitions = Definitions(self.catalog, self.ledger, self.log, self.spark)
        self._stopped = threading.Event()
        self.readiness = Readiness(self.catalog, self.log, self.inserts, self.ledger, lambda: self.spark.running)
        system = SystemRelations(
            self.log,
            lambda: self.catalog.value,
            self.log.count,
            StateSizes(GenerationFiles(folder.generations), self.log),
            self.readiness.by_table,
            self._dead_letters,
        )
        self.contents = Contents(self.catalog, self.log, self.inserts, self.ledger, self.spark, self.readiness, system)
        self.known_keys = KnownKeys(self.contents, self.inserts)
        self.tables = PolledTables(self.catalog, self.ledger, self.inserts, self.log, self.contents, self.spark)
        self.captures = Captures(folder, self.catalog, self.inserts, self.ledger, self.log, self.contents, self.now_us)
        self.sinks = Sinks(folder, self.log)
        self.event_results = EventResults(folder.root, self.log, self.inserts)
        self.totals = Totals()
        self.statements = StatementExecutor(
            self.catalog,
            self.ledger,
            self.log,
            self.inserts,
            self.spark,
            self.contents,
            self.tables,
            self.captures,
            self.batch,
            self.subscribe,
            self.check_writable,
            self.secrets,
        )
        self.scripts = ScriptRunner(self.catalog, self.ledger, self.inserts, self.statements, self.secrets)
        self.inserts.complete = self._complete
        if not read_only:
            self.inserts.open_for_writing()

    def now_us(self) -> int:
        """Processing time in microseconds since 1970."""
        return self.spark.now_us()

    def _complete(self, relation: str, rows: pa.Table) -> pa.Table:
        return complete_events(rows, self.now_us()) if relation == BUS else rows

    def check_writable(self) -> None:
        """Raise if the database is closed or was opened for reading only."""
        if self.closed:
            raise errors.make("DATABASE_CLOSED")
        if self.read_only:
            raise errors.make("READ_ONLY", folder=str(self.folder.root))

    def batch(self, script: ScriptStatement | None = None) -> Batch:
        """Changes of several relations that become one entry of the insert log. The entry names the statement of a
        script that it comes from."""
        self.check_writable()
        marks = None if script is None else {script.mark: script.digest}
        return Batch(
            lambda: self.catalog.value, self.inserts, self.boundary, self._on_events, marks, self.known_keys.check
        )

    def subscribe(
        self, relation: str, *, from_step: int | None = None, snapshot: bool = False, timeout: float | None = None
    ) -> Subscription:
        """The changes of a table or view: from now on, or from a step on (inclusive), or its content first."""
        self.log.refresh()
        entry = self.catalog.value.readable(relation)
        if not entry.stored and entry is not EVENTS:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{entry.name} is a {entry.described}: its changes are not kept",
                hint=f"CREATE MATERIALIZED VIEW ... AS SELECT * FROM {entry.name}, and subscribe to that",
            )
        last = self.log.last()
        first = inserted(self.contents.rows(entry.name, last), last) if snapshot else None
        after = last if from_step is None else from_step - 1
        upsert = entry.changes == "upsert"
        return Subscription(self.log, entry.name, after, upsert, timeout, first, self.check, self.boundary)

    def launch(self, release: int | None = None, *, once: bool = False, follow: bool = False) -> bool:
        """Make the pipeline run what the catalog defines; False if nothing is maintained.

        `release`: how many entries of the insert log it may read, None for all that come. `follow`: sinks run in
        threads of their own from now on.
        """
        self.check_writable()
        definition = self.definitions.pipeline()
        if once and definition is not None:
            _check_bounded(definition.sources)
        self.spark.pipeline.run(definition, release, once)
        self._return_results()
        self.sinks.open(self.catalog.value, self.ledger.start_steps(), follow)
        return definition is not None

    def load_tables(self) -> None:
        """Read polled tables that are due."""
        self.check_writable()
        if any(relation.connector is not None for relation in self.catalog.value.of_kind("table")):
            self.tables.load_due()

    def catch_up(self) -> None:
        """Append what captured sources have now."""
        try:
            self.captures.catch_up()
        except OSError as problem:
            if (storage := errors.storage_error(problem)) is not None:
                raise storage from problem
            hint = "check that it runs, then start again"
            raise errors.make("PIPELINE_FAILED", message=str(problem), hint=hint) from problem

    def catch_up_tables(self, progress: Callable[[Mapping[str, float]], None] | None) -> bool:
        """Append what captured tables have now, before stream rows are read that join them; False if `stop` was called
        meanwhile. Blocks until the server of a new table can be reached; other tables remain as they are without it, as
        in a pipeline that runs."""
        self._stopped.clear()
        while not self._stopped.is_set():
            try:
                self.captures.catch_up(tables=True)
            except OSError as problem:
                _log.warning("%s", problem)
                missing = self.captures.tables() & set(self.readiness.missing())
                if missing:
                    if progress is not None:
                        progress(dict.fromkeys(sorted(missing), 0.0))
                    self._stopped.wait(UNREACHABLE_SECONDS)
                    continue
            return True
        return False

    def await_tables(self, progress: Callable[[Mapping[str, float]], None] | None) -> None:
        """Block until the first step in which every table was read to its end."""
        shares = Shares()
        while self.spark.running:
            self.captures.check()
            missing = self.readiness.missing()
            if not missing:
                return
            with self.log.arrived:
                self.log.arrived.wait(0.1)
            if progress is not None:
                progress(shares.update(missing, self.spark.pipeline.progress_of_step()))
        self.check()

    def check(self) -> None:
        """Raise the error that ended a capture, a sink or the pipeline."""
        self.captures.check()
        self.sinks.check()
        if self.spark.started:
            self.spark.pipeline.check()

    def stop(self) -> None:
        """End the pipeline between two steps. If Spark's JVM has ended, it has ended already."""
        self._stopped.set()
        with contextlib.ExitStack() as stack:
            stack.callback(self.sinks.settle)
            stack.callback(self.spark.stop)
            stack.callback(self.captures.stop)
            stack.callback(self.tables.stop_polling)

    def close(self) -> None:
        """Release everything but the Spark session."""
        with contextlib.ExitStack() as stack:
            for part in (self.folder, self.event_results, self.sinks):
                stack.callback(part.close)

    def _after_step(self, step: int) -> None:
        """The one callback of a finished step."""
        self.totals.add(self.log.header(step))
        self._return_results()
        self.sinks.apply()
        self._maintain_logs()

    def _return_results(self) -> None:
        """Append the results of views over the event bus to the bus."""
        if self.event_results.apply(self.definitions.returning_views()):
            self.spark.pipeline.clock.release_own()

    def _maintain_logs(self) -> None:
        """Write snapshots where reading would fold too many changes, and drop steps beyond the retention."""
        stored = {each.name: arrow_schema(each.columns) for each in self.catalog.value if each.stored}
        for relation, schema in stored.items():
            if self.log.needs_snapshot(relation):
                self.log.snapshot(relation, schema, self.log.last())
        if self.log.last() % COMPACT_EVERY == 0:
            self.log.compact(stored, self.ledger.retention(DEFAULT_RETENTION), self.sinks.oldest())
            self.log.sweep_state()
            self.inserts.forget(self.spark.pipeline.consumed())

    def _on_events(self) -> None:
        """Log the bus from now on, since events were inserted."""
        if BUS not in self.ledger.start_steps():
            self.ledger.created(BUS, 0, 0)

    def _dead_letters(self) -> list[dict[str, Any]]:
        return [letter for folder in sorted(self.folder.sinks.glob("*")) for letter in dead_letters(folder)]


def _check_bounded(sources: Mapping[str, StreamSource]) -> None:
    """Raise if an input is unbounded: a pipeline that runs once has to end."""
    for relation, source in sources.items():
        if not source.bounded:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation} never ends, so the pipeline cannot run until its inputs end",
                hint="bound it (rows = '1000000'), or run without --once",
            )
