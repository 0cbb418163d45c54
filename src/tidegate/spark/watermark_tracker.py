"""Tracks the watermarks of a pipeline: how a step's rows move them, and what the clock carries next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

from tidegate.catalog.bus import BUS, OF_VIEW
from tidegate.circuit.model import Circuit, Op
from tidegate.ir.specs import AggregateSpec, EvictingSpec, GatedAggregateSpec, KernelSpec, WindowAggregateSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue
from tidegate.kernels.windows import earliest_open
from tidegate.spark.watermarks import IdleTimeouts, InputProgress, values
from tidegate.sql import Tidegate, render
from tidegate.traits.watermark import TIMESTAMPS, DeclaredWatermark, observed_name, walk

Request = tuple[str, str, Mapping[str, tuple[str, WatermarkValue]]]
FOREVER = "infinity"
LOOK_AGAIN, SOON = 1_000_000, 10_000


class WatermarkTracker:
    """The watermarks of one pipeline. `idle` are the relations with an `idle_timeout`, in microseconds; `sharded` those
    whose source has partitions, with how long one may be without rows."""

    def __init__(
        self,
        spark: SparkSession,
        circuit: Circuit,
        progress: InputProgress,
        idle: Mapping[str, int],
        sharded: Mapping[str, int] | None = None,
    ) -> None:
        self._spark, self._circuit, self._idle = spark, circuit, idle
        self.progress = progress
        self._watching = {relation: watching(circuit, relation) for relation in sharded or {}}
        self._quiet = {
            name: (sharded or {})[relation] for relation, observed in self._watching.items() for name in observed
        }
        self.watermarks: dict[str, WatermarkValue] = {}
        self._ticked_us = 0
        self._types = {watermark.name: watermark.type for watermark in walk(circuit.watermarks)}

    def after(self, stats: Mapping[str, Any], clock: Clock, shards: Mapping[str, Sequence[str]]) -> None:
        """Update the progress after a step. `shards`: the partitions of each partitioned source."""
        advanced: dict[str, WatermarkValue] = {}
        for advance in stats["advanced"]:
            advanced |= InputProgress().after({}, {**advanced, **advance}, (), 0).advanced
        held_back = {
            watermark.name: advanced[f"{watermark.relation}.{watermark.column}"]
            for watermark in self._hold_backs()
            if f"{watermark.relation}.{watermark.column}" in advanced
        }
        active = [relation for relation, count in stats["rows_in"].items() if count and relation != BUS]
        active += [
            watermark.relation
            for watermark in self._event_watermarks()
            if observed_name(watermark.relation, watermark.column) in stats["seen"]
        ]
        active += [
            watermark.relation
            for watermark in walk(self._circuit.watermarks)
            if isinstance(watermark, DeclaredWatermark)
            and watermark.relation != BUS
            and observed_name(watermark.relation, watermark.column) in advanced
        ]
        self.progress = self.progress.with_reached(self._reached(active, clock))
        observed = InputProgress().after(stats["seen"], {}, (), 0).after(held_back, {}, (), 0).seen
        self.progress = self.progress.after(observed, advanced, active, clock.time_us)
        for relation, partitions in shards.items():
            for name in self._watching.get(relation, ()):
                largest = stats["shards"].get(name, {})
                self.progress = self.progress.with_shards(name, partitions, largest, clock.time_us)
        if self.progress.ending and all(
            clock.watermarks.get(watermark.name) == INFINITE for watermark in self._hold_backs()
        ):
            self.progress = replace(self.progress, ended=True)

    def _reached(self, active: Collection[str], clock: Clock) -> dict[str, WatermarkValue]:
        """Where the watermarks of idle relations were before the rows that have come now."""
        reached: dict[str, WatermarkValue] = {}
        for watermark in walk(self._circuit.watermarks):
            if not isinstance(watermark, DeclaredWatermark) or watermark.relation not in {*active} & {*self._idle}:
                continue
            value = clock.watermarks.get(watermark.name)
            if isinstance(value, int) and watermark.type in TIMESTAMPS:
                reached[replace(watermark, lag=0).name] = value + watermark.lag
        return reached

    def end(self) -> None:
        """End all inputs. Held-back rows are released first; only then do all watermarks go to infinity."""
        self.progress = replace(self.progress, ending=True, ended=not self._hold_backs())

    def _event_watermarks(self) -> list[DeclaredWatermark]:
        """The watermarks of events: only events that move them show that the bus is not idle."""
        declared = [
            watermark for watermark in walk(self._circuit.watermarks) if isinstance(watermark, DeclaredWatermark)
        ]
        return [watermark for watermark in declared if _of_events(watermark.relation)]

    def _hold_backs(self) -> list[DeclaredWatermark]:
        return [
            watermark
            for watermark in walk(self._circuit.watermarks)
            if isinstance(watermark, DeclaredWatermark) and watermark.note == "hold_back"
        ]

    def tick(
        self, before: Mapping[str, WatermarkValue], time_us: int, unread: bool = False
    ) -> dict[str, WatermarkValue]:
        """Evaluate all watermarks at a processing time; none goes back. `unread`: events may exist that no step has
        read yet, so neither the bus nor a view over it is idle."""
        self._ticked_us = time_us
        return self._move(before, time_us, unread)

    def finish_step(self, clock: Clock, unread: bool) -> None:
        """Evaluate all watermarks after a step: its rows move them. The time that has passed since the last tick does
        not move those of idle inputs, as every step would cause another one then; `next_idle` says when it has to."""
        self._move(clock.watermarks, clock.time_us, unread)

    def _move(self, before: Mapping[str, WatermarkValue], time_us: int, unread: bool) -> dict[str, WatermarkValue]:
        if self._circuit.watermarks:
            relations = {name: timeout for name, timeout in self._idle.items() if not (unread and _of_events(name))}
            idle = IdleTimeouts(self._ticked_us, relations, self._quiet)
            self.watermarks = values(self._circuit.watermarks, self.progress, before, time_us, idle, self._evaluate)
        return self.watermarks

    def published(self) -> dict[str, str]:
        """The published watermarks as text, by relation and column."""
        texts = {}
        for watched in self._circuit.published:
            text = self.text(watched.watermark, self.watermarks.get(watched.watermark))
            if text is not None:
                texts[f"{watched.relation}.{watched.column}"] = text
        return texts

    def text(self, name: str, value: WatermarkValue) -> str | None:
        """Render the value of a watermark as users write it."""
        if value is None or value == INFINITE:
            return None if value is None else FOREVER
        return value_text(value, self._types.get(name, "bigint"))

    def next_idle(self, keeping: Collection[str]) -> int | None:
        """The next time at which an idle input advances its watermark and an op may react: a window that is not empty
        ends, or (every second) another op that waits may continue. It may have passed, and steps that other inputs
        cause do not postpone it. `keeping`: the ops that keep rows."""
        times = []
        waiting = self._next_reaction(keeping)
        for relation, timeout in self._idle.items() if waiting is not None else ():
            due = self.progress.rows.get(relation, self.progress.since[relation]) + timeout
            times.append(due if due > self._ticked_us else waiting or due)
        for name, quiet in self._quiet.items():
            idle_times = [last_row + quiet for _, last_row in self.progress.shards.get(name, {}).values()]
            times += [time for time in idle_times if time > self._ticked_us]
        return min(times, default=None)

    def _next_reaction(self, keeping: Collection[str]) -> int | None:
        """The next time at which an op can react if watermarks follow the clock from the last tick on; None if none
        can."""
        waiting = [op for op in self._circuit.ops if op.id in keeping and _reacts_to_watermarks(op)]
        times = [self._ticked_us + _until_an_end(op.kernel, self.watermarks) for op in waiting]
        return min(times, default=None)

    def _evaluate(self, requests: Sequence[Request]) -> list[WatermarkValue]:
        """Spark SQL on one row each, all in one query."""
        items = [f"CAST({_filled(sql, columns)} AS {type}) AS c{n}" for n, (sql, type, columns) in enumerate(requests)]
        table = self._spark.sql(f"SELECT {', '.join(items)}").toArrow()
        return [stored(column.combine_chunks()[0]) for column in table.columns]


def _of_events(relation: str) -> bool:
    """True for the event bus and for the events of a view over it."""
    return relation == BUS or relation.endswith(OF_VIEW)


def _reacts_to_watermarks(op: Op) -> bool:
    """True if an op reacts to watermarks. A global aggregate gets ticks but does not depend on them; one that only
    evicts rows can do that in the next step, whatever causes it."""
    ticks = isinstance(op.kernel, AggregateSpec) and not op.kernel.evict_before
    return op.timed and not ticks and not isinstance(op.kernel, EvictingSpec)


def _until_an_end(kernel: KernelSpec, watermarks: Mapping[str, WatermarkValue]) -> int:
    """Microseconds until a watermark reaches the next window end; a second where that is unknown."""
    if isinstance(kernel, GatedAggregateSpec):
        waits, kernel = kernel.gate.every is None, kernel.inner
    else:
        waits = True
    if not waits or not isinstance(kernel, WindowAggregateSpec) or kernel.window.kind == "session":
        return LOOK_AGAIN
    watermark = watermarks.get(kernel.watermark or "")
    if not isinstance(watermark, int) or kernel.window.type not in TIMESTAMPS:
        return LOOK_AGAIN
    closes = earliest_open(kernel.window, watermark)[1] - watermark
    evicts = earliest_open(kernel.window, watermark - kernel.lateness)[1] - (watermark - kernel.lateness)
    return max(min(closes, evicts), SOON)


def watching(circuit: Circuit, relation: str) -> set[str]:
    """The names under which the times of a relation's own rows are observed, at its ingress or that of a view on it."""
    return {
        observed.name
        for ingress in circuit.ingresses
        if any(branch.producer.relation == relation for branch in ingress.branches)
        for observed in ingress.observed
    }


def _filled(sql: str, columns: Mapping[str, tuple[str, WatermarkValue]]) -> str:
    """Replace the columns of an expression by values."""
    tree = parse_one(f"SELECT {sql}", read=Tidegate).expressions[0]

    def fill(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        type, value = columns[node.name]
        filled: exp.Expr = parse_one(f"SELECT {literal(value, type)}", read=Tidegate).expressions[0]
        return filled

    return render(tree.transform(fill))


def literal(value: WatermarkValue, type: str) -> str:
    """A stored value as Spark SQL."""
    if type in ("timestamp", "timestamp_ntz"):
        return f"CAST(timestamp_micros({value}L) AS {type})"
    if type == "date":
        return f"date_from_unix_date({value})"
    return f"CAST('{value}' AS {type})"


def stored(value: pa.Scalar) -> WatermarkValue:
    """A value of Spark as watermarks store it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return int(value.cast(pa.timestamp("us")).value)
    if pa.types.is_date(value.type):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_decimal(value.type):
        return str(value.as_py())
    plain: int | float = value.as_py()
    return plain


def value_text(value: WatermarkValue, type: str) -> str:
    if type in ("timestamp", "timestamp_ntz"):
        time = pa.scalar(int(value or 0), pa.timestamp("us")).as_py()
        return str(time)
    if type == "date":
        return str(pa.scalar(int(value or 0), pa.date32()).as_py())
    return str(value)
