"""The driver's side of a step: its blocks become one record of the step log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.circuit.model import Output
from tidegate.connectors.contract import Partitioned
from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT
from tidegate.core.failpoints import failpoint
from tidegate.core.types import nullable_schema
from tidegate.errors import Error
from tidegate.kernels.api import Clock
from tidegate.spark import blocks, codec, compat
from tidegate.spark.clock import ClockSource
from tidegate.spark.exchange import Exchange
from tidegate.spark.failing_rows import FailingRows
from tidegate.spark.generation import Generation
from tidegate.spark.watermark_tracker import WatermarkTracker
from tidegate.spark.watermarks import larger
from tidegate.storage.blobs import unsealed, write_blob
from tidegate.storage.checkpoint import NO_OFFSET
from tidegate.storage.state import Address, BucketState, StateObjects
from tidegate.storage.step_header import ChangeFile, LateFile, RejectedRow, StepHeader, late_rows
from tidegate.storage.step_log import StepLog, StepRecord

Payloads = list[tuple[str, bytes]]
Late = list[tuple[dict[str, Any], pl.DataFrame]]
FEW_LATE = 1_000
COUNTERS = ("rows_in", "events", "groups", "evicted", "overflow", "objects")
LOGGED = [pa.field(OP, pa.string()), pa.field(WEIGHT, pa.int64())]


class StopRequested(Exception):
    """Raised at the beginning of a batch to end the query between two steps."""


class Recorder:
    """The `foreachBatch` function of a generation. Runs exactly one action, writes exactly one step. A batch after
    `last_batch` is not begun; the query then ends with an error, and `stopped` tells that it was asked to."""

    def __init__(
        self,
        generation: Generation,
        log: StepLog,
        spill: Path,
        exchange: Exchange,
        clock: ClockSource,
        tracker: WatermarkTracker,
        offsets: Callable[[int], Sequence[str]],
        unreadable: Callable[[int], list[RejectedRow]],
        after_step: Callable[[int, Late], None],
        objects: StateObjects,
        failing: FailingRows,
    ) -> None:
        outputs = generation.circuit.outputs
        self._outputs = {output.relation: output for output in outputs}
        self._schemas = {output.relation: nullable_schema(output.columns) for output in outputs}
        self._log, self._base, self._spill, self._after = log, generation.base_step, spill, after_step
        self._new = generation.new_outputs()
        self._ops = {op.id for op in generation.definition.circuit.ops}
        self._sources, self._offsets, self._unreadable = generation.definition.sources, offsets, unreadable
        self._loads = {relation for relation in self._sources if relation not in generation.positions}
        self._clock, self._tracker, self._exchange, self._objects = clock, tracker, exchange, objects
        self._failing = failing
        self.last_batch: int | None = None
        self.stopped = False
        self.failure: Error | None = None
        self.batch = -1
        self.wake: dict[tuple[str, str], int] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self.last_batch is not None and batch > self.last_batch:
            self.stopped = True
            raise StopRequested
        failpoint("offsets.written")
        self.batch = batch
        started = time.time()
        unreadable = self._unreadable(batch)
        rows = frame.toArrow()
        failpoint("state.written")
        self._exchange.end_batch(batch)
        step = self._base + batch + 1
        payloads = _by_address(rows)
        late = [(json.loads(record), codec.decode(payload)) for record, payload in payloads.pop(blocks.LATE, [])]
        record = self._record(step, started, payloads, late, self._clock.at(batch), unreadable)
        self._log.write(record)
        failpoint("step_log.written")
        self._objects.advance(record.state)
        compat.name_call_site(frame.sparkSession)
        self._after(step, late)

    def _record(
        self,
        step: int,
        started: float,
        payloads: dict[str, Payloads],
        late: Late,
        clock: Clock,
        unreadable: list[RejectedRow],
    ) -> StepRecord:
        stats = _merge([json.loads(payload) for _, payload in payloads.pop(blocks.STATS, [])])
        self._tracker.after(stats, clock, self._shards(step - self._base - 1))
        self._tracker.finish_step(clock, unread=self._clock.wall)
        rejected = unreadable + [
            RejectedRow(*error) for _, payload in payloads.pop(blocks.ERRORS, []) for error in json.loads(payload)
        ]
        failed = [tuple(each) for _, payload in payloads.pop(blocks.FAILED, []) for each in json.loads(payload)]
        unprocessed = self._failing.records(failed)
        self.failure = self._failing.stop(unprocessed)
        if self.failure is not None:
            raise self.failure
        rejected += unprocessed
        changes: dict[str, pa.Table] = {}
        files: list[ChangeFile] = []
        by_output = {address.removeprefix(blocks.OUTPUT): items for address, items in payloads.items()}
        for relation in sorted(by_output.keys() | self._replaced(step)):
            before = self._before(relation) if relation in self._replaced(step) else None
            self._log_output(self._outputs[relation], by_output.get(relation, []), before, changes, files)
        dropped = dict(self._log.header(step - 1).dropped)
        for op, count in stats["evicted"].items():
            dropped[op] = dropped.get(op, 0) + count
        self._note_wakes(stats["wake"])
        few = [(drop, rows) for drop, rows in late if len(rows) < FEW_LATE]
        many = [(drop, rows) for drop, rows in late if len(rows) >= FEW_LATE]
        groups = self._groups_before(step)
        for op, change in stats["groups"].items():
            groups[op] = groups.get(op, 0) + change
        header = StepHeader(
            step=step,
            started=started,
            millis=round(max(0.0, time.time() - started) * 1000, 3),
            time_us=clock.time_us,
            entry=max(stats["entry"], self._log.header(step - 1).entry),
            rows_in=stats["rows_in"],
            events=stats["events"],
            overflow={view: count for view, count in stats["overflow"].items() if count},
            groups={op: count for op, count in groups.items() if count},
            dropped={op: count for op, count in dropped.items() if count},
            loaded=self._loaded(step),
            watermarks=self._tracker.published(),
            progress=self._tracker.progress.to_json(),
            errors=tuple(rejected),
            late=tuple(row for drop, rows in few for row in late_rows(rows, *self._dropped_by(drop))),
            late_files=tuple(self._late_file(drop, rows) for drop, rows in many),
            files=tuple(files),
        )
        return StepRecord(header, changes, self._objects.newest.after(stats["state"], stats["objects"]))

    def ops_with_rows(self) -> set[str]:
        """The ops that keep rows in state."""
        return {op for (op, _), state in self._objects.newest.buckets.items() if state.rows}

    def _groups_before(self, step: int) -> dict[str, int]:
        """The number of groups of each present op before this step."""
        return {op: count for op, count in self._log.header(step - 1).groups.items() if op in self._ops}

    def _shards(self, batch: int) -> dict[str, list[str]]:
        """The partitions of every source that has some."""
        pairs = zip(self._sources.items(), self._offsets(batch), strict=True)
        return {
            relation: source.partitions_at(offset)
            for (relation, source), offset in pairs
            if isinstance(source, Partitioned) and offset != NO_OFFSET
        }

    def _loaded(self, step: int) -> dict[str, int]:
        """The step in which the relation of each connector was first read to its end at that time."""
        before = self._log.header(step - 1).loaded
        new = self._loads if step == self._base + 1 else ()
        existing = {relation: at for relation, at in before.items() if relation in self._sources}
        return {**existing, **dict.fromkeys(new, step)}

    def _dropped_by(self, drop: dict[str, Any]) -> tuple[str, tuple[str, ...], str, str | None]:
        """The relation of late rows, the views that dropped them, the time column, and its watermark as text."""
        watermark = self._tracker.text(drop["watermark"], drop["value"])
        return drop["relation"], tuple(drop["views"]), drop["column"], watermark

    def _late_file(self, drop: dict[str, Any], rows: pl.DataFrame) -> LateFile:
        """Store many late rows as a file; they are rendered when they are read."""
        name = write_blob(codec.encode(rows), self._spill)
        count = int(rows[WEIGHT].abs().sum()) * max(1, len(drop["views"]))
        return LateFile(name, count, *self._dropped_by(drop))

    def _note_wakes(self, wakes: dict[str, dict[str, int | None]]) -> None:
        moments = {(op, bucket): moment for op, buckets in wakes.items() for bucket, moment in buckets.items()}
        self.wake = {bucket: moment for bucket, moment in {**self.wake, **moments}.items() if moment is not None}

    def _replaced(self, step: int) -> set[str]:
        """In the first step of a generation: the outputs that it rebuilds; their previous content is retracted."""
        return self._new if step == self._base + 1 else set()

    def _before(self, relation: str) -> pl.DataFrame | None:
        """The content of a relation before this generation as retractions; None if it was empty."""
        rows = self._log.weighted(relation, self._schemas[relation], self._base)
        return rows.with_columns(-pl.col(WEIGHT)) if rows.height else None

    def _log_output(
        self,
        output: Output,
        payloads: Payloads,
        before: pl.DataFrame | None,
        changes: dict[str, pa.Table],
        files: list[ChangeFile],
    ) -> None:
        append = output.kind == "append" and before is None
        file_tags = {blocks.LOGGED, blocks.SPILLED} if append and not output.hidden else {blocks.LOGGED}
        written_by_workers = [json.loads(payload) for tag, payload in payloads if tag in file_tags]
        files += [ChangeFile(output.relation, rows, net, name) for name, rows, net in written_by_workers]
        payloads = [item for item in payloads if item[0] not in file_tags]
        frames = [self._decode(*item) for item in payloads]
        hidden = [column.name for column in output.hidden]
        if before is not None:
            nulls = [pl.lit(None, dtype=_like(frames, name)).alias(name) for name in hidden]
            frames.append(before.with_columns(nulls))
        if not frames:
            return
        names = [column.name for column in output.columns] + hidden + [WEIGHT]
        rows = pl.concat([frame.select(names) for frame in frames], how="vertical_relaxed")
        table = zset.changes(rows, hidden, output.key, append, output.mark).to_arrow()
        if table.num_rows:
            schema = self._schemas[output.relation]
            target = pa.schema([*schema, *LOGGED])
            changes[output.relation] = table.select(target.names).cast(target)

    def _decode(self, tag: str, payload: bytes) -> pl.DataFrame:
        if tag == blocks.SPILLED:
            path = self._spill / json.loads(payload)[0]
            payload = bytes(unsealed(path.read_bytes()))
            path.unlink(missing_ok=True)
        return codec.decode(payload)


def _like(frames: list[pl.DataFrame], name: str) -> pl.DataType:
    return frames[0].schema[name] if frames else pl.Null()


def _by_address(rows: pa.Table) -> dict[str, Payloads]:
    by_address: dict[str, Payloads] = {}
    for row in rows.to_pylist():
        by_address.setdefault(row["op"], []).append((row["tag"], row["payload"]))
    return {address: sorted(items) for address, items in sorted(by_address.items())}


def _sums(parts: list[dict[str, Any]], counter: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in parts:
        for name, count in part.get(counter, {}).items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _merge(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of several workers combined: counters are added up."""
    state: dict[Address, BucketState] = {}
    wake: dict[str, dict[str, int | None]] = {}
    seen: dict[str, Any] = {}
    shards: dict[str, dict[str, Any]] = {}
    for part in parts:
        for op, buckets in part.get("state", {}).items():
            state.update({(op, int(bucket)): BucketState.from_json(each) for bucket, each in buckets.items()})
        for op, moments in part.get("wake", {}).items():
            wake.setdefault(op, {}).update(moments)
        for name, value in part.get("seen", {}).items():
            seen[name] = larger(seen.get(name), value)
        for name, values in part.get("shards", {}).items():
            largest = shards.setdefault(name, {})
            largest.update({shard: larger(largest.get(shard), value) for shard, value in values.items()})
    return {
        **{counter: _sums(parts, counter) for counter in COUNTERS},
        "state": state,
        "wake": wake,
        "seen": seen,
        "shards": shards,
        "advanced": [advance for part in parts for advance in part.get("advanced", [])],
        "entry": max((part.get("entry", 0) for part in parts), default=0),
    }
