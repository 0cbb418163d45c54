"""A pipeline: the one Spark query of a database, its generations, and how it starts, idles and stops."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.circuit.model import Circuit
from tidegate.connectors.contract import Partitioned, StreamSource
from tidegate.spark import compat, source_order
from tidegate.spark.clock import ClockSource
from tidegate.spark.exchange import Exchange
from tidegate.spark.failing_rows import FailingRows
from tidegate.spark.failures import all_reachable, failure_error, is_away
from tidegate.spark.generation import FEED_START, Generation, Generations, PipelineDefinition, feed_offset
from tidegate.spark.inputs import InputFrames
from tidegate.spark.late_tables import LateTables
from tidegate.spark.level import StateSource
from tidegate.spark.lowering import Lowering
from tidegate.spark.migration import migrate
from tidegate.spark.processing_clock import ProcessingClock, is_ending
from tidegate.spark.recorder import Late, Recorder
from tidegate.spark.succession import Succession
from tidegate.spark.timer import ClockTimer
from tidegate.spark.unreadable_files import UnreadableFiles
from tidegate.spark.watermark_tracker import WatermarkTracker
from tidegate.spark.watermarks import InputProgress
from tidegate.storage.checkpoint import NO_OFFSET
from tidegate.storage.folder import Folder, Settings
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.state import StateObjects
from tidegate.storage.step_log import StepLog
from tidegate.storage.wall_clock import WallClock

_log = logging.getLogger(__name__)

STARTS = 4
"""How many times a query is started whose processes did not start."""
SPARKS_OWN = "200"
PLANNING = {
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.subexpressionElimination.enabled": "false",
}
"""Every micro-batch is planned anew. Constraints serve joins, which no plan of ours has. Common parts of expressions
would be evaluated where no error is caught (`spark/catching.py`)."""
RECONNECT_SECONDS = 2.0


class Pipeline:
    """Runs circuits of one folder, one at a time, on one Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Folder,
        log: StepLog,
        inserts: InsertLog,
        on_step: Callable[[int], None],
        wall: WallClock | None,
        skip_poison: bool = False,
    ) -> None:
        self._spark, self._folder, self._log, self._inserts, self._wall = spark, folder, log, inserts, wall
        self._on_step, self._skip_poison = on_step, skip_poison
        self.clock = ProcessingClock(folder.clock, inserts, log, wall)
        self._generations = Generations(folder.generations)
        self._unreadable = UnreadableFiles(folder.storage)
        self._succession = Succession(self._generations, log, inserts, self.clock, self._settle, self._unreadable)
        self._late_tables = LateTables(log, inserts, self.clock)
        self._inputs = InputFrames(spark, folder, self.partitions, wall is not None, self._unreadable)
        self._once = False
        self._query: StreamingQuery | None = None
        self._recorder: Recorder | None = None
        self._running: PipelineDefinition | None = None
        self._launched: tuple[Generation, PipelineDefinition, int | None] | None = None
        self._starts = 0
        self._superseding = False
        self._waiting, self._next_attempt = False, 0.0
        self._timer: ClockTimer | None = None
        self._timer_failure: Exception | None = None
        for key, value in {"spark.sql.shuffle.partitions": str(self.partitions), **PLANNING}.items():
            spark.conf.set(key, value)

    @property
    def partitions(self) -> int:
        """The number of shuffle partitions: state is laid out by it, so it is pinned at the first run, to what the user
        set or to the number of cores."""
        pinned = self._folder.settings.read().partitions
        if pinned is None:
            configured = self._spark.conf.get("spark.sql.shuffle.partitions")
            count = self._spark.sparkContext.defaultParallelism if configured == SPARKS_OWN else configured
            pinned = max(1, int(count or 1))
            self._folder.settings.write(Settings(pinned))
        return pinned

    @property
    def active(self) -> bool:
        return self._waiting or (self._query is not None and self._query.isActive)

    def run(self, definition: PipelineDefinition | None, release: int | None, once: bool) -> None:
        """Run a definition; None: nothing is maintained, and rows inserted so far are past. `release`: how many entries
        of the insert log may be read, None for all that come. `once`: sources end at what they have now."""
        self._once = once
        if self._folder.must_migrate():
            migrate(self._spark, self._folder, self._log)
        self.clock.release(release)
        if definition is None:
            self._skip(self._inserts.head())
            self.clock.finish_end()
        else:
            self._start(definition)

    def _start(self, definition: PipelineDefinition) -> None:
        if self.active and self._running is not None and self._running.fingerprint == definition.fingerprint:
            return
        self.stop()
        self._launch(self._succession.generation_for(definition), definition)

    def _skip(self, head: int) -> None:
        """Begin a generation without anything to maintain after an entry of the insert log."""
        self.stop()
        current = self._generations.current()
        nothing = PipelineDefinition(Circuit((), (), ()), {}, {}, "")
        start = {**FEED_START, "entry": head, "tick": self.clock.read()["tick"]}
        if current is None or current.start["entry"] != head or current.definition != nothing:
            self._generations.begin(Generation(self._generations.next_number(), self._log.last(), nothing, start))

    def idle(self) -> None:
        """Block until everything that was released is processed, and no file is being written."""
        attempts = 0
        while attempts < STARTS:
            assert self._query is not None
            try:
                self._query.processAllAvailable()
                if not self._read_changed_files(wait=True):
                    return
            except StreamingQueryException as failure:
                if not self._left_out_file(str(failure)):
                    attempts += 1
                    self._failed(failure, last=attempts == STARTS)

    def idle_to_the_end(self) -> None:
        """Block as `idle` does, and then let the inputs end if they are to."""
        self.idle()
        if self.clock.finish_end():
            self.idle()

    def progress(self) -> list[StreamingQueryProgress]:
        """Spark's own reports of the recent micro-batches."""
        return [] if self._query is None else list(self._query.recentProgress)

    def progress_of_step(self) -> float:
        """The share of finished tasks of the step under way, from 0 to 1."""
        if self._query is None:
            return 0.0
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(self._query.runId))]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds
        ]
        infos = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in infos) / max(1, sum(stage.numTasks for stage in infos))

    def check(self) -> None:
        """Raise the error that ended the query, if there is one."""
        if self._query is None or self._query.isActive:
            if self._timer_failure is not None:
                text = f"{type(self._timer_failure).__name__}: {self._timer_failure}"
                raise failure_error(text, (), self._folder.log) from self._timer_failure
            self._read_changed_files(wait=False)
            return
        failure = self._query.exception()
        if failure is None or self._left_out_file(str(failure)):
            return
        if is_away(str(failure), self._sources()):
            self._restart_when_reachable(str(failure))
        else:
            self._starts += 1
            self._failed(failure, last=self._starts >= STARTS)

    def stop(self) -> None:
        """End the query between two steps where it can, so that what is logged is also committed."""
        query, recorder = self._query, self._recorder
        self._waiting = False
        if query is None or recorder is None:
            return
        if self._timer is not None:
            self._timer.stop()
        if query.isActive:
            self._settle_between_steps(query, recorder)
            query.stop()
        self._query = None

    def abandon(self) -> None:
        """Forget the query: the JVM that ran it has ended."""
        self._waiting, self._query = False, None
        if self._timer is not None:
            self._timer.stop()

    def consumed(self) -> int:
        """The first entry of the insert log that no committed step has read."""
        generation = self._generations.current()
        if generation is None:
            return 0
        checkpoint = self._generations.checkpoint(generation.number)
        batch = checkpoint.committed()
        if batch is None:
            return int(generation.start["entry"])
        return int(feed_offset(checkpoint.batch(batch).offsets[0])["entry"])

    def _settle_between_steps(self, query: StreamingQuery, recorder: Recorder) -> None:
        """Let a batch that is under way finish and commit, and keep the next one from beginning."""
        recorder.last_batch = recorder.batch
        deadline = time.monotonic() + 60
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if not query.status["isDataAvailable"]:
                return
            time.sleep(0.01)

    def _settle(self, old: Generation) -> None:
        """Run a step that is logged but not committed (the process was killed in between) to its end, with the circuit
        it belongs to."""
        checkpoint = self._generations.checkpoint(old.number)
        planned = checkpoint.planned()
        if self._log.last() <= old.base_step + checkpoint.batches() or planned is None:
            return
        self._launch(old, old.definition, last_batch=planned)
        while self.active and checkpoint.committed() != planned:
            time.sleep(0.02)
        self.check()
        self.stop()

    def _launch(self, generation: Generation, definition: PipelineDefinition, last_batch: int | None = None) -> None:
        """Start the query of a generation. A failure of Spark (a process of its was killed) ends the pipeline as one in
        a step does."""
        try:
            self._start_query(generation, definition, last_batch)
        except (Py4JError, PySparkException) as problem:
            raise failure_error(str(problem), definition.sources.values(), self._folder.log) from problem

    def _start_query(self, generation: Generation, definition: PipelineDefinition, last_batch: int | None) -> None:
        checkpoint = self._generations.checkpoint(generation.number)
        self._generations.check_planned(self._log.last())
        checkpoint.remove_if_unplanned()
        self._generations.check(generation.number)
        start = json.dumps(generation.start)
        launch, base = uuid.uuid4().hex, generation.base_step
        clock = ClockSource(launch, str(checkpoint.folder), base, start, self._wall is not None, str(self._folder.root))
        state = StateSource(launch, str(self._folder.root), base, generation.carried)
        exchange = Exchange(str(self._folder.exchange))
        exchange.begin()
        self._unreadable.keep_only(definition.sources)
        lowering = Lowering(
            generation.circuit, generation.replays(), self.partitions, clock, state, str(self._folder.blobs), exchange
        )
        tracker = self._track(generation, definition)
        frame = self._inputs.blocks(generation, definition, lowering, self._once)
        for number in range(1, generation.circuit.depth + 1):
            frame = lowering.level(frame, number)
        recorder = Recorder(
            generation,
            self._log,
            self._folder.blobs,
            exchange,
            clock,
            tracker,
            lambda batch: checkpoint.batch(batch).offsets[1:],
            self._unreadable.in_steps(generation, checkpoint),
            self._after_step,
            self._state_objects(state, base + checkpoint.batches()),
            FailingRows(self._spark, generation.circuit, lowering.consumers, self._skip_poison),
        )
        recorder.last_batch = last_batch
        writer = frame.writeStream.foreachBatch(recorder).outputMode("append")
        writer = writer.option("checkpointLocation", str(checkpoint.folder))
        order = source_order.asking_order(generation.circuit, definition.sources)
        self._query = source_order.start(self._spark, writer, launch, order)
        self._recorder, self._running, self._launched = recorder, definition, (generation, definition, last_batch)
        self._superseding = True
        if self._wall and last_batch is None:
            self._timer_failure = None
            self._timer = ClockTimer(self._next_timer, self.clock.tick, self._wall.now_us, self._timer_failed)

    def _state_objects(self, source: StateSource, step: int) -> StateObjects:
        """The state after a step, which the next one begins with."""
        previous = self._log.state(step - 1) if step - 1 in self._log.steps_with_state() else None
        return StateObjects(self._folder.storage, source.after(step), previous)

    def _track(self, generation: Generation, definition: PipelineDefinition) -> WatermarkTracker:
        """Restore the watermarks as the last step left them, and put what follows from them on the clock."""
        stored = self._log.header(self._log.last()).progress
        now = self._wall.now_us() if self._wall else self.clock.read()["time"]
        progress = (InputProgress() if stored is None else InputProgress.from_json(stored)).with_relations(
            definition.idle, now
        )
        partitioned = {name: each for name, each in definition.sources.items() if isinstance(each, Partitioned)}
        sharded = {name: each.partition_idle_us for name, each in partitioned.items()}
        tracker = WatermarkTracker(self._spark, generation.circuit, progress, definition.idle, sharded)
        with self.clock.lock:
            self.clock.tracker = tracker
            if self.clock.read()["ended"] is True and not progress.ending:
                tracker.end()
            tracker.tick(self.clock.read().get("lines", {}), now)
            self.clock.publish()
        return tracker

    def _next_timer(self) -> int | None:
        """The next processing time at which something has to happen, in microseconds; None if nothing waits."""
        if self._recorder is None or self.clock.tracker is None:
            return None
        timers = [*self._recorder.wake.values()]
        idle = self.clock.tracker.next_idle(self._recorder.ops_with_rows())
        return min([*timers, *([idle] if idle is not None else [])], default=None)

    def _timer_failed(self, problem: Exception) -> None:
        """Without a timer no time passes, so `check` ends the pipeline."""
        self._timer_failure = problem

    def _after_step(self, step: int, late: Late) -> None:
        assert self._launched is not None
        self._late_tables.insert(self._launched[0].circuit, step, late)
        self._forget_generations(self._launched[0].number)
        self.clock.publish()
        self._finish_end(self._launched[0])
        self._on_step(step)
        if self._timer is not None:
            self._timer.reschedule()

    def _finish_end(self, generation: Generation) -> None:
        """In a pipeline that follows its inputs: end them after the step that has read all that came before the end."""
        clock = self.clock.read()
        if not is_ending(clock) or clock["released"] is not None:
            return
        assert self._recorder is not None
        feed = self._generations.checkpoint(generation.number).batch(self._recorder.batch).offsets[0]
        start = generation.start if feed == NO_OFFSET else feed_offset(feed)
        self.clock.finish_end(int(start["entry"]))

    def _forget_generations(self, number: int) -> None:
        """Remove earlier generations once the present one has committed a batch."""
        if self._superseding and self._generations.checkpoint(number).committed() is not None:
            self._generations.forget_before(number)
            self._superseding = False

    def _failed(self, failure: StreamingQueryException, last: bool) -> None:
        """Ignore the end of a query that was asked to stop; start one again that failed because a process did not start
        (a machine under load), which changes nothing; raise the reason of any other failure."""
        if self._recorder is not None and self._recorder.stopped:
            return
        if self._recorder is not None and self._recorder.failure is not None:
            raise self._recorder.failure from None
        text = str(failure)
        if compat.is_process_failure(text) and not last and self._launched is not None:
            self._launch(*self._launched)
            return
        raise failure_error(text, self._sources(), self._folder.log) from failure

    def _restart_when_reachable(self, text: str) -> None:
        """Start the query again as soon as the server of every source can be reached."""
        if not self._waiting:
            _log.warning("%s: waiting for it", failure_error(text, self._sources(), self._folder.log).message)
            self._waiting = True
        if time.monotonic() < self._next_attempt:
            return
        if all_reachable(self._sources()) and self._launched is not None:
            self._launch(*self._launched)
            self._waiting = False
        else:
            self._next_attempt = time.monotonic() + RECONNECT_SECONDS

    def retry_files(self, relation: str) -> int:
        """Read the files of a relation again that could not be read; returns how many there are."""
        return self._unreadable.retry(relation)

    def _left_out_file(self, text: str) -> bool:
        """Run a step again that failed at a file which cannot be read; False if it failed for another reason."""
        if self._launched is None or (self._recorder is not None and self._recorder.stopped):
            return False
        generation, definition, _ = self._launched
        checkpoint = self._generations.checkpoint(generation.number)
        step = generation.base_step + (checkpoint.planned() or 0) + 1
        if not self._unreadable.set_aside(text, definition.sources, checkpoint.source_log, step):
            return False
        self._launch(*self._launched)
        return True

    def _read_changed_files(self, wait: bool) -> bool:
        """Begin a generation that reads the files again which could not be read and have changed; False if there are
        none. `wait`: for those that are being written."""
        definition = self._running
        if self._query is None or definition is None or not (due := self._unreadable.due(wait)):
            return False
        self.stop()
        generation = self._succession.generation_for(definition, anew=True)
        self._unreadable.forget(due)
        self._launch(generation, definition)
        return True

    def _sources(self) -> list[StreamSource]:
        return [] if self._launched is None else list(self._launched[1].sources.values())
