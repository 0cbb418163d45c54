"""`FROM DATAGEN`: rows generated from their numbers, as a Spark stream whose offset is the number of the next row."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.connectors.contract import Position, SourceContext, SourceSpec, StreamSource
from tidegate.connectors.datagen.options import Plan, plan
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.quoting import identifier
from tidegate.core.references import expand
from tidegate.core.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = "tidegate_datagen"
_TICK_MS = 1000
_CHUNK = 65_536
_WORTH_SPLITTING = 20_000


@dataclass(frozen=True)
class DatagenSource(StreamSource):
    """Row i is the same for the same seed, whatever the steps and restarts.

    `rows_per_second` goes by the wall clock, one second's rows at a time, so that a pipeline is idle in between. The
    time that a pipeline was down is not made up for. A pipeline that runs once ignores the rate.
    """

    plan: Plan

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> DatagenSource:
        return cls(spec, plan(spec, bag))

    @property
    def bounded(self) -> bool:
        return self.plan.rows is not None

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        spark.dataSource.register(DatagenDataSource)
        settings = {
            "columns": json.dumps([(c.name, c.type, c.nullable) for c in self.spec.columns]),
            "given": json.dumps([(key, self._value(value)) for key, value in self.spec.options.items()]),
            "first": str((context.start or {}).get("row", 0)),
            "hurry": str(context.once and self.bounded),
            "tasks": str(spark.sparkContext.defaultParallelism),
        }
        frame = spark.readStream.format(_NAME).options(**settings).load()
        columns = [frame[identifier(c.name)] for c in self.spec.columns]
        nothing = F.lit(None).cast("string")
        weight = F.lit(1).cast("bigint").alias(WEIGHT)
        return frame.select(*columns, weight, SEQ, nothing.alias(ERROR), nothing.alias(RAW))

    def _value(self, text: str) -> str:
        return expand(text) if self.spec.references else text

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        if offset is None:
            return start or {"row": 0}
        return {"row": int(json.loads(offset)["row"])}


class DatagenDataSource(DataSource):
    """Spark's data source of generated rows."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return ", ".join(f"{identifier(name)} {type_}" for name, type_ in self._named_types())

    def streamReader(self, schema: StructType) -> DatagenReader:
        options = [(key, value, None) for key, value in json.loads(self.options["given"])]
        spec = SourceSpec("DATAGEN", "", self._columns())
        rows_plan = plan(spec, Bag("DATAGEN", options))
        hurry = self.options["hurry"] == "True"
        return DatagenReader(rows_plan, int(self.options["first"]), hurry, int(self.options["tasks"]))

    def _named_types(self) -> list[tuple[str, str]]:
        return [*((c.name, c.type) for c in self._columns()), (SEQ, "bigint")]

    def _columns(self) -> tuple[Column, ...]:
        return tuple(Column(*column) for column in json.loads(self.options["columns"]))


@dataclass
class RowRange(InputPartition):
    """Rows first..end, without end."""

    first: int
    end: int


class DatagenReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams generated rows. An offset is the next row's number and the time (in ms) up to which the rate was met."""

    def __init__(self, plan: Plan, first: int, hurry: bool, tasks: int) -> None:
        self.plan = plan
        self.first = first
        self.rate = None if hurry else plan.rows_per_second
        self.tasks = tasks
        self.awake = _now_ms() - _TICK_MS
        self.until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"row": self.first, "at": self.awake}

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = _now_ms()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Advance by at most a second's rows; the time before this reader started does not count."""
        row, now = start["row"], _now_ms()
        at = start["at"] if self.awake <= start["at"] <= now else self.awake
        count = self.plan.max_rows_per_step
        if self.rate is not None:
            ticks = ((self.until or now) - at) // _TICK_MS
            count = min(count, ticks * self.rate)
        if self.plan.rows is not None:
            count = min(count, self.plan.rows - row)
        if count <= 0:
            return start
        return {"row": row + count, "at": at + (count * _TICK_MS // self.rate if self.rate else 0)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = start["row"], end["row"]
        tasks = max(1, min(self.tasks, (last - first) // _WORTH_SPLITTING))
        bounds = [first + (last - first) * i // tasks for i in range(tasks + 1)]
        return [RowRange(a, b) for a, b in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        for first in range(partition.first, partition.end, _CHUNK):
            yield rows_between(self.plan, first, min(first + _CHUNK, partition.end))


def rows_between(plan: Plan, first: int, end: int) -> pa.RecordBatch:
    """Rows first..end, without end: the columns, then the row's number."""
    numbers = np.arange(first, end, dtype=np.int64)
    arrays: list[pa.Array[Any]] = [generator.make(numbers) for generator in plan.generators]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(numbers)], names=[*(c.name for c in plan.columns), SEQ])


def _now_ms() -> int:
    """Milliseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000
