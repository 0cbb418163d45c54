"""A pipeline: the one Spark query of a database, its generations, and how it starts, idles and stops."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from tidegate import errors
from tidegate.circuit.model import Circuit
from tidegate.connectors.contract import ParquetFiles, Partitioned, Remote, SourceContext, StreamSource
from tidegate.core.columns import WEIGHT
from tidegate.core.files import write_atomically
from tidegate.core.schema import Schema
from tidegate.core.types import arrow_type, nullable_schema
from tidegate.spark.clock import ClockSource
from tidegate.spark.exchange import Exchange
from tidegate.spark.feed import Feed
from tidegate.spark.frontiers import Frontiers
from tidegate.spark.generation import (
    FEED_START,
    Generation,
    Generations,
    Wanted,
    backfilled,
    feed_offset,
    outputs_read,
)
from tidegate.spark.line_keeper import LineKeeper
from tidegate.spark.lowering import Lowering, wide_schema
from tidegate.spark.recorder import NO_OFFSET, Late, Recorder, StopRequested
from tidegate.spark.waker import Waker
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.step_log import StepLog

SETTINGS_FILE = "pipeline.json"
SLOW_WORKER = "worker failed to connect back"
STARTS = 4
SPARKS_OWN = "200"
LOOK_SECONDS = 2.0


class Pipeline:
    """Runs circuits of one folder, one at a time, on one Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Folder,
        log: StepLog,
        inserts: InsertLog,
        on_step: Callable[[int], None],
        wall: bool,
    ) -> None:
        self.spark, self.folder, self.log, self.inserts, self.wall = spark, folder, log, inserts, wall
        self.generations = Generations(folder.generations)
        self._on_step = on_step
        self.once = False
        self._query: StreamingQuery | None = None
        self._recorder: Recorder | None = None
        self._running: Wanted | None = None
        self._launched: tuple[Generation, Wanted, int | None] | None = None
        self._starts = 0
        self._waiting, self._next_look = False, 0.0
        self._clock_lock = threading.RLock()
        self._keeper: LineKeeper | None = None
        self._waker: Waker | None = None
        spark.dataSource.register(Feed)
        spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))

    @property
    def partitions(self) -> int:
        """The number of shuffle partitions: state is laid out by it, so it is pinned at the first run, to what the user
        set or to the number of cores."""
        path = self.folder.root / SETTINGS_FILE
        if not path.exists():
            wanted = self.spark.conf.get("spark.sql.shuffle.partitions")
            count = self.spark.sparkContext.defaultParallelism if wanted == SPARKS_OWN else wanted
            write_atomically(path, json.dumps({"partitions": max(1, int(count or 1))}).encode())
        return int(json.loads(path.read_text())["partitions"])

    @property
    def active(self) -> bool:
        return self._waiting or (self._query is not None and self._query.isActive)

    @property
    def state(self) -> dict[str, dict[str, list[int]]]:
        """Rows and bytes of state per op and bucket, as far as this process has seen them."""
        return self._recorder.state if self._recorder else {}

    def run(self, wanted: Wanted | None, release: int | None, once: bool) -> None:
        """Run a definition; None: nothing is maintained, and rows inserted so far are past. `release`: how many entries
        of the insert log may be read, None for all that come. `once`: sources end at what they have now."""
        self.once = once
        self.release(release)
        if wanted is None:
            self.skip(self.inserts.head())
        else:
            self.start(wanted)

    def start(self, wanted: Wanted) -> None:
        """Runs what is wanted: resumes the newest generation if it is that, else begins the next one."""
        if self.active and self._running is not None and self._running.fingerprint == wanted.fingerprint:
            return
        self.stop()
        generation = self._generation(wanted)
        self._launch(generation, wanted)

    def skip(self, head: int) -> None:
        """Nothing is maintained: what was given so far is past, and whatever comes to be maintained begins after it."""
        self.stop()
        current = self.generations.current()
        nothing = Wanted(Circuit((), (), ()), {}, {}, "")
        start = {**FEED_START, "entry": head, "tick": self.clock()["tick"]}
        if current is None or current.start["entry"] != head or current.wanted != nothing:
            self.generations.begin(Generation(self.generations.next_number(), self.log.last(), nothing, start))

    def idle(self, timeout: float | None = None) -> None:
        """Waits until everything that was given is processed."""
        for attempt in range(STARTS):
            assert self._query is not None
            try:
                self._query.processAllAvailable()
                return
            except StreamingQueryException as failure:
                self._failed(failure, last=attempt == STARTS - 1)

    def progress(self) -> list[StreamingQueryProgress]:
        """Spark's own reports of the recent micro-batches."""
        return [] if self._query is None else list(self._query.recentProgress)

    def progress_of_step(self) -> float:
        """The share of finished tasks of the step under way, from 0 to 1."""
        if self._query is None:
            return 0.0
        tracker = self.spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(self._query.runId))]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds
        ]
        known = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in known) / max(1, sum(stage.numTasks for stage in known))

    def check(self) -> None:
        """Raises what ended the query, if something did."""
        if self._query is None or self._query.isActive:
            return
        failure = self._query.exception()
        if failure is not None and self._launched is not None and self._away(str(failure)):
            self._go_on_when_it_is_back(str(failure))
        elif failure is not None:
            self._starts += 1
            self._failed(failure, last=self._starts >= STARTS)

    def stop(self) -> None:
        """Ends the query between two steps where it can, so that what is logged is also committed."""
        query, recorder = self._query, self._recorder
        self._waiting = False
        if query is None or recorder is None:
            return
        if self._waker is not None:
            self._waker.stop()
        if query.isActive:
            self._settle_between_steps(query, recorder)
            query.stop()
        self._query = None

    def tick(self) -> None:
        """Moves the clock: the next micro-batch tells every op that asked for it."""
        with self._clock_lock:
            self._set_clock(self._ticked(self.clock()))

    def set_time(self, time_us: int) -> None:
        """Moves the virtual clock. A pipeline that goes step by step sees it with the rows of its next step."""
        with self._clock_lock:
            self._give({**self.clock(), "next": time_us})

    def end(self) -> None:
        """The end of all inputs: every frontier goes to infinity."""
        with self._clock_lock:
            clock = self.clock()
            self._give({**clock, "ended": True, "next": clock.get("next", clock["time"])})

    def _give(self, clock: dict[str, Any]) -> None:
        """What was said of the clock takes effect at once, or waits with the rows for the next release."""
        self._set_clock(self._ticked(clock) if clock.get("released") is None else clock)

    def _ticked(self, clock: dict[str, Any]) -> dict[str, Any]:
        lines = clock.get("lines", {})
        with self.inserts.lock:
            now = time.time_ns() // 1000 if self.wall else clock.get("next", clock["time"])
            unread = self._unread()
        if self._keeper is not None:
            if clock.get("ended") and not self._keeper.frontiers.ending:
                self._keeper.end()
            lines = self._keeper.move(lines, now, unread)
        kept = {name: value for name, value in clock.items() if name != "next"}
        return {**kept, "tick": clock["tick"] + 1, "time": now, "lines": lines}

    def _unread(self) -> bool:
        """Whether something was given that no step has had. Events get their time as they are given, under the same
        lock as this is asked: none that comes later is behind the moment of asking."""
        return self.inserts.head() > self.log.header(self.log.last()).entry

    def _publish(self) -> None:
        """Puts lines that have moved on the clock, which makes the next micro-batch."""
        assert self._keeper is not None
        with self._clock_lock:
            clock = self.clock()
            if {**clock.get("lines", {}), **self._keeper.lines} != clock.get("lines", {}):
                self.tick()

    def release(self, entries: int | None) -> None:
        """Lets the pipeline read so many entries of the insert log, and what was said of the clock before; None: all,
        as they come."""
        with self._clock_lock:
            clock = self.clock()
            if "next" in clock or clock.get("released") != entries:
                given = {**clock, "released": entries}
                self._set_clock(self._ticked(given) if "next" in clock else given)

    def release_own(self) -> None:
        """What the pipeline itself has put into the insert log belongs to the present step."""
        with self._clock_lock:
            if self.clock().get("released") is not None:
                self._set_clock({**self.clock(), "released": self.inserts.head()})

    def clock(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.folder.clock.read_text())
        except FileNotFoundError:
            return {"tick": 0, "time": 0, "released": 0}
        return found

    def clock_us(self) -> int:
        """Processing time of the next step, in microseconds since 1970."""
        clock = self.clock()
        return int(clock.get("next", clock["time"]))

    def _set_clock(self, clock: dict[str, Any]) -> None:
        write_atomically(self.folder.clock, json.dumps(clock).encode())

    def consumed(self) -> int:
        """The first entry of the insert log that no committed step has read."""
        generation = self.generations.current()
        if generation is None:
            return 0
        batch = self.generations.committed(generation.number)
        if batch is None:
            return int(generation.start["entry"])
        return int(feed_offset(self.generations.offsets(generation.number, batch)[0])["entry"])

    def _settle_between_steps(self, query: StreamingQuery, recorder: Recorder) -> None:
        """Lets a batch that is under way finish and be committed, and keeps the next from beginning."""
        recorder.last_batch = recorder.batch
        deadline = time.monotonic() + 60
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if not query.status["isDataAvailable"]:
                return
            time.sleep(0.01)

    def _generation(self, wanted: Wanted) -> Generation:
        current = self.generations.current()
        if current is None:
            return self._begin(self._first(wanted))
        if current.fingerprint == wanted.fingerprint:
            return current
        return self._begin(self._with_content(self._next(current, wanted)))

    def _with_content(self, generation: Generation) -> Generation:
        """Gives new readers of a table that is only in the log its content, as an entry of the insert log."""
        wanted, names = backfilled(generation.wanted, generation, lambda table: f"{table}@{generation.number}")
        if not names:
            return generation
        inputs = {item.relation: item.columns for item in wanted.circuit.inputs}
        content = {each: self._content(each, inputs[names[each]], generation.base_step) for each in names}
        self.inserts.append([(names[table], rows, 1) for table, rows in content.items()])
        self.release_own()
        return replace(generation, wanted=wanted)

    def _content(self, relation: str, columns: Schema, step: int) -> pa.Table:
        """What a relation contained after a step; parts of its key that nobody sees are not known."""
        visible = tuple(column for column in columns if not column.name.startswith("__"))
        rows = self.log.content(relation, nullable_schema(visible), step)
        for column in columns:
            if column.name.startswith("__"):
                rows = rows.append_column(column.name, pa.nulls(rows.num_rows, arrow_type(column.type)))
        return rows.select([column.name for column in columns])

    def _begin(self, generation: Generation) -> Generation:
        self.generations.begin(generation)
        self.tick()
        return generation

    def _first(self, wanted: Wanted) -> Generation:
        return Generation(
            number=self.generations.next_number(),
            base_step=self.log.last(),
            wanted=wanted,
            start={**FEED_START, "tick": self.clock()["tick"]},
        )

    def _next(self, old: Generation, wanted: Wanted) -> Generation:
        """The generation after `old`: positions and shared state go along."""
        self._settle(old)
        number = self.generations.next_number()
        kept = {op.id for op in wanted.circuit.ops}
        batch = self.generations.committed(old.number)
        if batch is None:
            return self._inherit(old, wanted, number)
        carried = kept & {op.id for op in old.circuit.ops}
        offsets = self.generations.offsets(old.number, batch)
        self.log.truncate(old.base_step + batch + 1)
        return Generation(
            number=number,
            base_step=old.base_step + batch + 1,
            wanted=wanted,
            start={**feed_offset(offsets[0]), "tick": self.clock()["tick"]},
            positions=self._positions(old, wanted, offsets[1:]),
            carried=frozenset(carried),
            known_outputs=outputs_read(old.wanted),
            restore=self.generations.export_state(self.spark, old, carried, number) if carried else (),
        )

    def _inherit(self, old: Generation, wanted: Wanted, number: int) -> Generation:
        """`old` never finished a step: the next one begins where it would have begun."""
        kept = {op.id for op in wanted.circuit.ops}
        return Generation(
            number=number,
            base_step=old.base_step,
            wanted=wanted,
            start={**old.start, "tick": self.clock()["tick"]},
            positions=old.positions,
            carried=old.carried & kept,
            known_outputs=old.known_outputs,
            restore=old.restore,
        )

    def _positions(self, old: Generation, wanted: Wanted, offsets: list[str]) -> dict[str, Any]:
        found = {}
        for index, (relation, offset) in enumerate(zip(old.wanted.sources, offsets, strict=True), start=1):
            source = wanted.sources.get(relation)
            if source is not None:
                logs = self.generations.checkpoint(old.number) / "sources" / str(index)
                reached = None if offset == NO_OFFSET else offset
                found[relation] = source.position(reached, logs, old.positions.get(relation))
        return found

    def _settle(self, old: Generation) -> None:
        """A step that is logged but not committed (the process was killed in between) is run to its end first, by the
        circuit it belongs to."""
        committed, planned = self.generations.committed(old.number), self.generations.planned(old.number)
        done = old.base_step + (-1 if committed is None else committed) + 1
        if self.log.last() <= done or planned is None:
            return
        self._launch(old, old.wanted, last_batch=planned)
        while self.active and self.generations.committed(old.number) != planned:
            time.sleep(0.02)
        self.check()
        self.stop()

    def _launch(self, generation: Generation, wanted: Wanted, last_batch: int | None = None) -> None:
        self.generations.sweep(generation.number)
        offsets = self.generations.checkpoint(generation.number) / "offsets"
        clock = ClockSource(str(offsets), generation.base_step, json.dumps(generation.start), self.wall)
        exchange = Exchange(str(self.folder.exchange))
        exchange.begin()
        lowering = Lowering(
            generation.circuit, generation.replays(), self.partitions, clock, str(self.folder.blobs), exchange
        )
        keeper = self._keeper = self._kept(generation, wanted)
        frame = self._blocks(generation, wanted, lowering)
        for number in range(1, generation.circuit.depth + 1):
            frame = lowering.level(frame, number)
        recorder = Recorder(
            generation,
            self.log,
            self.folder.blobs,
            exchange,
            clock,
            keeper,
            lambda batch: self.generations.offsets(generation.number, batch)[1:],
            self._stepped,
        )
        recorder.last_batch = last_batch
        self._query = (
            frame.writeStream.foreachBatch(recorder)
            .outputMode("append")
            .option("checkpointLocation", str(self.generations.checkpoint(generation.number)))
            .start()
        )
        self._recorder, self._running, self._launched = recorder, wanted, (generation, wanted, last_batch)
        if self.wall and last_batch is None:
            self._waker = Waker(self._due, self.tick)

    def _kept(self, generation: Generation, wanted: Wanted) -> LineKeeper:
        """The frontiers as the last step left them, and the clock that follows from them."""
        known = self.log.header(self.log.last()).frontiers
        now = time.time_ns() // 1000 if self.wall else self.clock()["time"]
        frontiers = (Frontiers() if known is None else Frontiers.from_json(known)).begun(wanted.idle, now)
        partitioned = {name: each for name, each in wanted.sources.items() if isinstance(each, Partitioned)}
        sharded = {name: each.partition_idle_us for name, each in partitioned.items()}
        keeper = self._keeper = LineKeeper(self.spark, generation.circuit, frontiers, wanted.idle, sharded)
        if self.clock().get("ended") and not frontiers.ending:
            keeper.end()
        with self._clock_lock:
            keeper.move(self.clock().get("lines", {}), now)
            self._publish()
        return keeper

    def _due(self) -> int | None:
        """The next processing time at which something has to happen."""
        if self._recorder is None or self._keeper is None:
            return None
        moments = [*self._recorder.wake.values()]
        idle = self._keeper.next_idle(time.time_ns() // 1000, self._recorder.state)
        return min([*moments, *([idle] if idle is not None else [])], default=None)

    def _stepped(self, step: int, late: Late) -> None:
        self._keep_late(step, late)
        self._publish()
        self._on_step(step)
        if self._waker is not None:
            self._waker.look()

    def _keep_late(self, step: int, late: Late) -> None:
        """LATE DATA TO: late rows go into their table, once, by way of the insert log."""
        assert self._launched is not None
        tables = dict(self._launched[0].circuit.late_to)
        parts = [
            (tables[view], rows.filter(pl.col(WEIGHT) > 0).drop(WEIGHT).to_arrow(), 1)
            for said, rows in late
            for view in said["views"]
            if view in tables
        ]
        columns = {item.relation: nullable_schema(item.columns) for item in self._launched[0].circuit.inputs}
        kept = [(table, rows.rename_columns(columns[table].names).cast(columns[table]), 1) for table, rows, _ in parts]
        kept = [part for part in kept if part[1].num_rows]
        if kept and not self._kept_already(step):
            self.inserts.append(kept, {"late_of": step})
            self.release_own()

    def _kept_already(self, step: int) -> bool:
        """Whether an earlier run of this step has done it."""
        first = max(self.log.header(step).entry, self.inserts.first())
        return any(
            self.inserts.read(number, set())[0].get("late_of") == step for number in range(first, self.inserts.head())
        )

    def _blocks(self, generation: Generation, wanted: Wanted, lowering: Lowering) -> DataFrame:
        frames = [self._feed(generation, lowering)]
        for relation, source in wanted.sources.items():
            context = SourceContext(folder=self.folder.root, once=self.once, start=generation.positions.get(relation))
            frames.append(self._packed(source, relation, context, lowering))
        return reduce(DataFrame.unionByName, frames)

    def _packed(self, source: StreamSource, relation: str, context: SourceContext, lowering: Lowering) -> DataFrame:
        """A connector's rows as blocks: by way of Spark SQL, or read by the workers themselves where that will do."""
        if isinstance(source, ParquetFiles):
            reading = lowering.reading(relation, source.spec.columns)
            files = None if reading is None else source.new_files(self.spark, context)
            if reading is not None and files is not None:
                return lowering.pack_files(files, reading)
        return lowering.pack_source(source.stream(self.spark, context), relation)

    def _feed(self, generation: Generation, lowering: Lowering) -> DataFrame:
        circuit = generation.circuit
        fed = generation.wanted.fed
        producers = {item.producer: item.columns for item in circuit.inputs if item.relation in fed}
        timed = [op for op in circuit.ops if op.timed]
        replayed = {consumer.branch.producer for consumer in lowering.replays.consumers}
        spec = {
            "log": str(self.folder.inserts),
            "clock": str(self.folder.clock),
            "relations": dict(fed),
            "timed": lowering.addresses(timed),
            "replay": lowering.addresses(op for op in circuit.ops if op.id in replayed),
            "restore": list(generation.restore),
            "start": generation.start,
            "parallelism": self.partitions,
            "wall": self.wall,
            "alone": not generation.wanted.sources and self.wall and not self.once,
        }
        frame = (
            self.spark.readStream.format(Feed.name())
            .option("wide", wide_schema(producers, ordered=True).json())
            .option("spec", json.dumps(spec))
            .load()
        )
        return lowering.pack_feed(frame, producers)

    def _failed(self, failure: StreamingQueryException, last: bool) -> None:
        """What to do about a query that ended: nothing if it was told to; if a Python worker did not come up in the
        time Spark gives it (a machine under load), it is started again, which changes nothing; else say why."""
        text = str(failure)
        if StopRequested.__name__ in text:
            return
        if SLOW_WORKER in text and not last and self._launched is not None:
            self._launch(*self._launched)
            return
        raise self._explained(text) from failure

    def _go_on_when_it_is_back(self, text: str) -> None:
        """Starts the query again as soon as every source can be reached."""
        if not self._waiting:
            print(f"{self._explained(text).message}: waiting for it", file=sys.stderr)
            self._waiting = True
        assert self._launched is not None
        sources = self._launched[1].sources.values()
        if time.monotonic() >= self._next_look and all(s.reachable() for s in sources if isinstance(s, Remote)):
            self._launch(*self._launched)
            self._waiting = False
        elif time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS

    def _away(self, text: str) -> bool:
        """Whether a source's other end is away: then a pipeline that runs on goes on when it is back."""
        assert self._launched is not None
        sources = self._launched[1].sources.values()
        return any(each.is_connection_failure(text) for each in sources if isinstance(each, Remote))

    def _explained(self, text: str) -> errors.Error:
        wanted = self._launched[1] if self._launched else None
        for source in wanted.sources.values() if wanted else ():
            known = source.failure(text)
            if known is not None:
                return known
        return errors.make("PIPELINE_FAILED", reason=_reason(text), log=str(self.folder.log))


def _reason(text: str) -> str:
    """The last line of a Python traceback in Spark's text, or its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error:" in line or "Exception:" in line]
    return (told[-1] if told else lines[0])[:500]
