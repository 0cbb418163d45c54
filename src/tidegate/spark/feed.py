"""The feed: one streaming source that carries the insert log and the clock.

Its offset is the number of the next log entry plus the clock (tick, time, waterlines). Spark writes an offset to its
write-ahead log before the step runs, so a step that is run again sees the same rows and the same time. Being one
source, rows of several relations and a move of the clock are one atomic step. Entries up to `released` are read, all
of them if it is not set: so `step()` takes everything that was given before it as one step.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidegate.core.columns import SEQ, WEIGHT, Producer
from tidegate.spark import blocks
from tidegate.storage.clock_file import read_clock
from tidegate.storage.insert_log import HEAD, InsertLog
from tidegate.storage.objects import LocalStorage

ENTRIES_PER_PARTITION = 4
WORTH_STRIPES = 2_000_000
PATIENCE, GLANCE = 0.25, 0.01


class Feed(DataSource):
    """Spark's name for it is `tidegate_feed`; its options are one JSON text, `spec`."""

    @classmethod
    def name(cls) -> str:
        return "tidegate_feed"

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options["wide"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FeedReader(json.loads(self.options["spec"]), schema)


class Entries(InputPartition):
    """Log entries low <= number < high; of the rows of each part those of one stripe: part `stripe` of `of`."""

    def __init__(self, low: int, high: int, stripe: int = 0, of: int = 1) -> None:
        self.low, self.high, self.stripe, self.of = low, high, stripe, of


class Tick(InputPartition):
    """A move of the clock, which every op that depends on time receives."""

    def __init__(self, clock: dict[str, Any], replay: bool) -> None:
        self.clock, self.replay = clock, replay


class FeedReader(DataSourceStreamReader):
    """Reads by offset; stateless, since it runs in several processes."""

    def __init__(self, spec: dict[str, Any], schema: StructType) -> None:
        self.spec, self.wide = spec, schema

    def initialOffset(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.spec["start"])

    def latestOffset(self, start: dict[str, Any], limit: object = None) -> dict[str, Any]:
        """The offset at which a batch could end now. While there is no input, the answer is delayed a little: a call of
        Spark a hundred times a second costs more than a look at two files."""
        until = time.monotonic() + PATIENCE
        while True:
            before = self._stamps()
            latest = self._latest(start)
            if latest is not start or not self.spec["alone"] or self._released() is not None:
                return latest
            while self._stamps() == before:
                if time.monotonic() >= until:
                    return latest
                time.sleep(GLANCE)

    def _stamps(self) -> list[tuple[int, int]]:
        paths = (self.spec["clock"], str(Path(self.spec["log"]) / HEAD))
        stats = [os.stat(path) if os.path.exists(path) else None for path in paths]
        return [(0, 0) if stat is None else (stat.st_mtime_ns, stat.st_ino) for stat in stats]

    def _released(self) -> int | None:
        released: int | None = read_clock(Path(self.spec["clock"]).parent)["released"]
        return released

    def _latest(self, start: dict[str, Any]) -> dict[str, Any]:
        log = InsertLog(LocalStorage(Path(self.spec["log"])))
        clock = read_clock(Path(self.spec["clock"]).parent)
        released = clock["released"]
        entry = max(log.head() if released is None else released, start["entry"])
        if entry == start["entry"] and clock["tick"] <= start["tick"]:
            return start
        now = max(clock["time"], time.time_ns() // 1000) if self.spec["wall"] else clock["time"]
        ticked = clock["tick"] > start["tick"]
        watermarks = clock.get("lines", {}) if ticked else start.get("lines", {})
        return {
            "entry": entry,
            "tick": max(clock["tick"], start["tick"]),
            "time": max(now, start["time"]),
            "lines": watermarks,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        low, high = start["entry"], end["entry"]
        size = max(ENTRIES_PER_PARTITION, -(-(high - low) // self.spec["parallelism"]))
        ranges = [(i, min(i + size, high)) for i in range(low, high, size)]
        stripes = self._stripes(low, high) if len(ranges) < self.spec["parallelism"] else 1
        partitions: list[InputPartition] = [
            Entries(*each, stripe, stripes) for each in ranges for stripe in range(stripes)
        ]
        fresh = start == self.spec["start"]
        if end["tick"] > start["tick"]:
            partitions.append(Tick(end, fresh))
        return partitions

    def _stripes(self, low: int, high: int) -> int:
        """The number of stripes into which the rows of a few large entries are split, so that all cores have work."""
        log = InsertLog(LocalStorage(Path(self.spec["log"])))
        large = sum(log.size(number) for number in range(low, high)) >= WORTH_STRIPES
        return int(self.spec["parallelism"]) if large else 1

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self.wide, timezone="UTC")
        match partition:
            case Entries():
                return self._entries(partition, schema)
            case Tick(clock=clock, replay=replay):
                return iter([_wide_blocks(self._tick(clock, replay), schema)])
        raise TypeError(partition)

    def _entries(self, partition: Entries, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        low, high, first = partition.low, partition.high, partition.stripe == 0
        relations: dict[str, int] = self.spec["relations"]
        counts: dict[str, int] = {}
        advanced: list[dict[str, Any]] = []
        rejected: list[list[str | None]] = []
        for number, header, parts in InsertLog(LocalStorage(Path(self.spec["log"]))).entries(low, high):
            seq = number << 32
            if first:
                advanced += [dict(header.advance)] if header.advance else []
                rejected += [list(each) for each in header.errors if number >= relations.get(each.relation, number + 1)]
            for part in parts:
                rows, at = _stripe(part.table, partition)
                if number >= relations.get(part.name, number + 1) and rows.num_rows:
                    counts[part.name] = counts.get(part.name, 0) + rows.num_rows
                    yield _wide_rows(part.name, rows, part.weight, seq + at, schema)
                seq += part.table.num_rows
        stats = json.dumps({"rows_in": counts, "entry": high, "advanced": advanced}).encode()
        records = [blocks.Block(blocks.STATS, 0, "", stats)]
        if rejected:
            records.append(blocks.Block(blocks.ERRORS, 0, "", json.dumps(rejected).encode()))
        yield _wide_blocks(records, schema)

    def _tick(self, clock: dict[str, Any], replay: bool) -> list[blocks.Block]:
        ticks = [blocks.Block(op, bucket, blocks.TICK, b"") for op, bucket in self.spec["timed"]]
        if not replay:
            return ticks
        return ticks + [blocks.Block(op, bucket, blocks.REPLAY, b"") for op, bucket in self.spec["replay"]]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the pipeline itself removes entries that are no longer needed."""


def _stripe(rows: pa.Table, partition: Entries) -> tuple[pa.Table, int]:
    """The rows of a stripe, and the number of rows before it."""
    start = rows.num_rows * partition.stripe // partition.of
    end = rows.num_rows * (partition.stripe + 1) // partition.of
    return (rows if partition.of == 1 else rows.slice(start, end - start)), start


def _wide_rows(relation: str, table: pa.Table, weight: int, seq: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of one relation as the wide frame: its struct column filled, all others NULL."""
    column = Producer.of_input(relation)
    target = schema.field(column).type
    count = table.num_rows
    own = WEIGHT in table.column_names
    weights = _flat(table, WEIGHT).cast(pa.int64()) if own else pa.repeat(pa.scalar(weight, pa.int64()), count)
    extra = {WEIGHT: weights, SEQ: pa.array(range(seq, seq + count))}
    arrays = [
        extra[field.name] if field.name in extra else _flat(table, field.name).cast(field.type) for field in target
    ]
    struct = pa.StructArray.from_arrays(arrays, fields=list(target))
    columns = [struct if field.name == column else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _flat(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _wide_blocks(records: list[blocks.Block], schema: pa.Schema) -> pa.RecordBatch:
    """Blocks that pass through unchanged: the address columns filled, all relations NULL."""
    return _addressed(blocks.to_batch(records), schema)


def _addressed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    count = batch.num_rows
    columns = [batch.column(field.name[2:]) if _is_address(field) else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_address(field: pa.Field) -> bool:
    return field.name in ("__op", "__bucket", "__tag", "__payload")
