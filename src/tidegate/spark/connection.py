"""The Spark session of one database, and what runs on it: started when something first needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.step_log import StepLog
from tidegate.storage.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.analyzer import SparkAnalyzer
    from tidegate.spark.pipeline import Pipeline
    from tidegate.spark.queries import Queries

AGAIN = (
    "start again: it goes on after the last finished step; if memory was short, "
    "connect with config={{'spark.driver.memory': ...}}; see {log}"
)
NEW_SESSION = (
    "create a new Spark session, and connect again with it: it goes on after the last finished step; see {log}"
)
VIRTUAL_EPOCH_US = 1_577_836_800_000_000


class SparkConnection:
    """Runs on a session of the user's (`given`), or on one made for `master` with `config` added to our settings.

    `wall`: processing time is the wall clock; otherwise it moves only when it is set. `skip_poison`: rows for which an
    expression fails end no view, whatever its `on_error`. `on_step` is called with the
    number of every step once it is logged. Spark is started within the context that `starting` returns.
    """

    def __init__(
        self,
        folder: Folder,
        log: StepLog,
        inserts: InsertLog,
        on_step: Callable[[int], None],
        *,
        given: SparkSession | None = None,
        master: str | None = None,
        config: Mapping[str, str] | None = None,
        wall: bool = True,
        skip_poison: bool = False,
    ) -> None:
        self._folder, self._log, self._inserts, self._on_step = folder, log, inserts, on_step
        self._given, self._master, self._config = given, master, dict(config or {})
        self._wall = WallClock(folder.root, log) if wall else None
        self._skip_poison = skip_poison
        self.starting: Callable[[], AbstractContextManager[None]] = nullcontext

    def now_us(self) -> int:
        """Processing time in microseconds since 1970."""
        return self.pipeline.clock.next_us() if self._wall is None else self._wall.now_us()

    @property
    def started(self) -> bool:
        """True once the session exists."""
        return "session" in self.__dict__

    @property
    def has_pipeline(self) -> bool:
        """True once the pipeline exists."""
        return "pipeline" in self.__dict__

    @property
    def running(self) -> bool:
        """True while the pipeline's query is active."""
        return self.has_pipeline and self.pipeline.active

    def stop(self) -> None:
        """End the pipeline between two steps. Nothing is left to do if the JVM has ended."""
        try:
            if self.has_pipeline:
                self.pipeline.stop()
        except Exception:
            if self.lost() is None:
                raise

    def lost(self) -> errors.Error | None:
        """The error to raise if the JVM has ended. A session of our own is then forgotten: what needs Spark next starts
        it again."""
        if not self.started or not _is_lost(self.session):
            return None
        if self.has_pipeline:
            self.pipeline.abandon()
        if self._given is None:
            for part in ("session", "analyzer", "queries", "pipeline"):
                self.__dict__.pop(part, None)
        return errors.make(
            "PIPELINE_FAILED",
            reason="Spark's Java process has ended",
            detail="it was killed, or it had too little memory",
            hint=(AGAIN if self._given is None else NEW_SESSION).format(log=self._folder.log),
        )

    @cached_property
    def session(self) -> SparkSession:
        from tidegate.spark import session

        if self._given is not None:
            return session.session_of(self._given, self._config)
        with self.starting():
            return session.connect(self._master, self._config, self._folder.log)

    @cached_property
    def analyzer(self) -> SparkAnalyzer:
        """Types from Spark's analyser."""
        from tidegate.spark.analyzer import SparkAnalyzer

        return SparkAnalyzer(self.session)

    @cached_property
    def queries(self) -> Queries:
        """Ad-hoc queries as Spark batches."""
        from tidegate.spark.queries import Queries

        return Queries(self.session)

    @cached_property
    def pipeline(self) -> Pipeline:
        from tidegate.spark.pipeline import Pipeline

        pipeline = Pipeline(
            self.session, self._folder, self._log, self._inserts, self._on_step, self._wall, self._skip_poison
        )
        if self._wall is None and pipeline.clock.next_us() == 0:
            pipeline.clock.set_time(VIRTUAL_EPOCH_US)
        return pipeline


def _is_lost(session: SparkSession) -> bool:
    from tidegate.spark import compat

    return compat.is_lost(session.sparkContext)
