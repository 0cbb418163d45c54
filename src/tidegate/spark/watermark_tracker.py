"""Tracks the watermarks of a pipeline: how a step's rows move them, and what the clock carries next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlglot import exp, parse_one

from tidegate.catalog.bus import BUS, OF_VIEW
from tidegate.circuit.model import Circuit, Op
from tidegate.ir.specs import AggregateSpec, GatedAggregateSpec, KernelSpec, WindowAggregateSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue
from tidegate.kernels.windows import earliest_open
from tidegate.spark.watermarks import InputProgress, values
from tidegate.sql import Tidegate, render
from tidegate.traits.watermark import TIMESTAMPS, DeclaredWatermark, observed_name, walk

Asked = tuple[str, str, Mapping[str, tuple[str, WatermarkValue]]]
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
        self._quiet = {name: (sharded or {})[relation] for relation, seen in self._watching.items() for name in seen}
        self.lines: dict[str, WatermarkValue] = {}
        self._types = {line.name: line.type for line in walk(circuit.watermarks)}

    def after(self, stats: Mapping[str, Any], clock: Clock, shards: Mapping[str, Sequence[str]]) -> None:
        """Update the progress after a step. `shards`: the partitions of each partitioned source."""
        advanced: dict[str, WatermarkValue] = {}
        for given in stats["advanced"]:
            advanced |= InputProgress().after({}, {**advanced, **given}, (), 0).advanced
        held = {
            line.name: advanced[f"{line.relation}.{line.column}"]
            for line in self._held()
            if f"{line.relation}.{line.column}" in advanced
        }
        came = [relation for relation, count in stats["rows_in"].items() if count and relation != BUS]
        came += [
            line.relation for line in self._stamped() if observed_name(line.relation, line.column) in stats["seen"]
        ]
        seen = InputProgress().after(stats["seen"], {}, (), 0).after(held, {}, (), 0).seen
        self.progress = self.progress.after(seen, advanced, came, clock.time_us)
        for relation, known in shards.items():
            for name in self._watching.get(relation, ()):
                brought = stats["shards"].get(name, {})
                self.progress = self.progress.with_shards(name, known, brought, clock.time_us)
        if self.progress.ending and all(clock.watermarks.get(line.name) == INFINITE for line in self._held()):
            self.progress = replace(self.progress, ended=True)

    def end(self) -> None:
        """End all inputs. Held-back rows are released first; only then do all watermarks go to infinity."""
        self.progress = replace(self.progress, ending=True, ended=not self._held())

    def _stamped(self) -> list[DeclaredWatermark]:
        """The watermarks of events: only events that move them show that the bus is not idle."""
        declared = [line for line in walk(self._circuit.watermarks) if isinstance(line, DeclaredWatermark)]
        return [line for line in declared if _of_events(line.relation)]

    def _held(self) -> list[DeclaredWatermark]:
        return [
            line
            for line in walk(self._circuit.watermarks)
            if isinstance(line, DeclaredWatermark) and line.note == "hold_back"
        ]

    def move(
        self, before: Mapping[str, WatermarkValue], time_us: int, unread: bool = False
    ) -> dict[str, WatermarkValue]:
        """Evaluate all watermarks at a processing time; none goes back. `unread`: events may exist that no step has
        read yet, so neither the bus nor a view over it is idle."""
        if self._circuit.watermarks:
            idle = {name: timeout for name, timeout in self._idle.items() if not (unread and _of_events(name))}
            self.lines = values(
                self._circuit.watermarks, self.progress, before, time_us, idle, self._quiet, self._evaluate
            )
        return self.lines

    def shown(self) -> dict[str, str]:
        """The published watermarks as text, by relation and column."""
        found = {}
        for watched in self._circuit.published:
            text = self.text(watched.watermark, self.lines.get(watched.watermark))
            if text is not None:
                found[f"{watched.relation}.{watched.column}"] = text
        return found

    def text(self, line: str, value: WatermarkValue) -> str | None:
        """Render the value of a watermark as users write it."""
        if value is None or value == INFINITE:
            return None if value is None else FOREVER
        return value_text(value, self._types.get(line, "bigint"))

    def next_idle(self, time_us: int, sizes: Mapping[str, Mapping[str, Sequence[int]]]) -> int | None:
        """The next time at which a quiet input moves its frontier and something may follow from that: a window ends
        that is not empty, or (every second) something else that waits may go on. `sizes`: the rows that each op keeps,
        by bucket, as far as that is known."""
        moments = []
        waiting = self._waits(time_us, sizes)
        for relation, timeout in self._idle.items() if waiting is not None else ():
            due = self.progress.rows.get(relation, self.progress.since[relation]) + timeout
            moments.append(due if due > time_us else waiting or due)
        for name, quiet in self._quiet.items():
            falls_asleep = [came + quiet for _, came in self.progress.shards.get(name, {}).values()]
            moments += [moment for moment in falls_asleep if moment > time_us]
        return min(moments, default=None)

    def _waits(self, time_us: int, sizes: Mapping[str, Mapping[str, Sequence[int]]]) -> int | None:
        """When an op has something to do if watermarks follow the clock from now on; None if none has."""
        kept = [op for op in self._circuit.ops if _by_lines(op) and _keeps_rows(sizes.get(op.id))]
        moments = [time_us + _until_an_end(op.kernel, self.lines) for op in kept]
        return min(moments, default=None)

    def _evaluate(self, asked: Sequence[Asked]) -> list[WatermarkValue]:
        """Spark SQL on one row each, all in one query."""
        items = [f"CAST({_filled(sql, over)} AS {type}) AS c{n}" for n, (sql, type, over) in enumerate(asked)]
        table = self._spark.sql(f"SELECT {', '.join(items)}").toArrow()
        return [stored(column.combine_chunks()[0]) for column in table.columns]


def _of_events(relation: str) -> bool:
    """True for the event bus and for the events of a view over it."""
    return relation == BUS or relation.endswith(OF_VIEW)


def _by_lines(op: Op) -> bool:
    """True if an op reacts to watermarks. A global aggregate gets ticks but does not depend on them."""
    return op.timed and not (isinstance(op.kernel, AggregateSpec) and not op.kernel.evict_before)


def _keeps_rows(sizes: Mapping[str, Sequence[int]] | None) -> bool:
    return sizes is None or any(each[0] for each in sizes.values())


def _until_an_end(kernel: KernelSpec, lines: Mapping[str, WatermarkValue]) -> int:
    """Microseconds until a watermark reaches the next window end; a second where that is unknown."""
    if isinstance(kernel, GatedAggregateSpec):
        waits, kernel = kernel.gate.every is None, kernel.inner
    else:
        waits = True
    if not waits or not isinstance(kernel, WindowAggregateSpec) or kernel.window.kind == "session":
        return LOOK_AGAIN
    line = lines.get(kernel.watermark or "")
    if not isinstance(line, int) or kernel.window.type not in TIMESTAMPS:
        return LOOK_AGAIN
    closes = earliest_open(kernel.window, line)[1] - line
    forgets = earliest_open(kernel.window, line - kernel.lateness)[1] - (line - kernel.lateness)
    return max(min(closes, forgets), SOON)


def watching(circuit: Circuit, relation: str) -> set[str]:
    """The names under which the times of a relation's own rows are seen, at its door or at that of a view on it."""
    return {
        seen.name
        for door in circuit.ingresses
        if any(branch.producer == f"in:{relation}" for branch in door.branches)
        for seen in door.observed
    }


def _filled(sql: str, over: Mapping[str, tuple[str, WatermarkValue]]) -> str:
    """The expression with values in place of its columns."""
    tree = parse_one(f"SELECT {sql}", read=Tidegate).expressions[0]

    def fill(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        type, value = over[node.name]
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
    """A value of Spark's as a line has it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return int(value.cast(pa.timestamp("us")).value)
    if pa.types.is_date(value.type):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_decimal(value.type):
        return str(value.as_py())
    found: int | float = value.as_py()
    return found


def value_text(value: WatermarkValue, type: str) -> str:
    if type in ("timestamp", "timestamp_ntz"):
        moment = pa.scalar(int(value or 0), pa.timestamp("us")).as_py()
        return str(moment)
    if type == "date":
        return str(pa.scalar(int(value or 0), pa.date32()).as_py())
    return str(value)
