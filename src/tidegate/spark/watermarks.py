"""Watermarks on the driver: the progress of the inputs after a step, and the value of every watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any

from sqlglot import parse_one

from tidegate.catalog.bus import BUS, TIME
from tidegate.kernels.api import INFINITE, WatermarkValue
from tidegate.kernels.windows import earliest_open
from tidegate.sql import Tidegate
from tidegate.sql.durations import length
from tidegate.traits.watermark import (
    TIMESTAMPS,
    DeclaredWatermark,
    Expression,
    Extreme,
    Watermark,
    WindowEdge,
    observed_name,
    walk,
)

DAY_US = 86_400_000_000
SHIFTED = "shifted"

Evaluate = Callable[[Sequence[tuple[str, str, Mapping[str, tuple[str, WatermarkValue]]]]], list[WatermarkValue]]
"""Evaluates Spark SQL on one row each: (expression, type of the result, columns with their types and values)."""


@dataclass(frozen=True)
class IdleTimeouts:
    """How long inputs may be without rows, in microseconds: `relations` with an `idle_timeout`, and the `partitions` of
    a source, by the name of the observed column. `at_us`: the processing time as of which they are idle or not."""

    at_us: int
    relations: Mapping[str, int]
    partitions: Mapping[str, int]


@dataclass(frozen=True)
class InputProgress:
    """How far the inputs are, by name: the largest values seen, the values set by ADVANCE, the processing time of a
    relation's last row, and since when it is read. `reached`: where the watermarks of a relation were when its last row
    came, which is further than its rows and ADVANCE say if it was idle before. `shards`: for each partition of a
    partitioned source its largest value and the time of its last row. `ending`: no more rows will come, and held-back
    rows are released; `ended`: no row at all will come."""

    seen: Mapping[str, WatermarkValue] = field(default_factory=dict)
    advanced: Mapping[str, WatermarkValue] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[str, WatermarkValue] = field(default_factory=dict)
    shards: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    ending: bool = False
    ended: bool = False

    def after(
        self,
        seen: Mapping[str, WatermarkValue],
        advanced: Mapping[str, WatermarkValue],
        relations: Sequence[str],
        time_us: int,
    ) -> InputProgress:
        """Return the progress after a step."""
        return replace(
            self,
            seen=_largest(self.seen, seen),
            advanced=_largest(self.advanced, advanced),
            rows={**self.rows, **dict.fromkeys(relations, time_us)},
        )

    def with_relations(self, relations: Iterable[str], time_us: int) -> InputProgress:
        """Return the progress with further relations that are read from now on."""
        return replace(self, since={**dict.fromkeys(relations, time_us), **self.since})

    def with_reached(self, reached: Mapping[str, WatermarkValue]) -> InputProgress:
        """Return the progress with watermarks of relations that had rows."""
        return replace(self, reached=_largest(self.reached, reached))

    def with_shards(
        self, name: str, partitions: Iterable[str], largest: Mapping[str, WatermarkValue], time_us: int
    ) -> InputProgress:
        """Return the progress with all partitions of a source, and the largest values of a step for some of them."""
        before = self.shards.get(name, {})
        shards = {
            shard: before.get(shard, (None, time_us)) for shard in {**before, **dict.fromkeys(partitions), **largest}
        }
        shards |= {shard: (larger(shards[shard][0], value), time_us) for shard, value in largest.items()}
        return replace(self, shards={**self.shards, name: shards})

    def known(self, name: str, time_us: int, quiet: int) -> WatermarkValue:
        """Return the largest value seen; of a partitioned source the smallest of its partitions, since the next row of
        the slowest is not late. A partition without rows for `quiet` microseconds is idle and holds nothing back."""
        shards = self.shards.get(name)
        if not shards:
            return self.seen.get(name)
        active = [value for value, last_row in shards.values() if time_us - last_row < quiet]
        if active:
            return None if None in active else min(active, key=_number)
        return max((value for value, _ in shards.values() if value is not None), key=_number, default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": dict(self.seen),
            "advanced": dict(self.advanced),
            "rows": dict(self.rows),
            "since": dict(self.since),
            "reached": dict(self.reached),
            "shards": {name: {shard: list(at) for shard, at in shards.items()} for name, shards in self.shards.items()},
            "ending": self.ending,
            "ended": self.ended,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> InputProgress:
        return InputProgress(**document)


def larger(left: WatermarkValue, right: WatermarkValue) -> WatermarkValue:
    """Return the larger of two values of one watermark; None is below all."""
    if left is None or right is None:
        return right if left is None else left
    if INFINITE in (left, right):
        return INFINITE
    return right if _number(right) > _number(left) else left


def _number(value: WatermarkValue) -> Any:
    return Decimal(value) if isinstance(value, str) else value


def _largest(old: Mapping[str, WatermarkValue], new: Mapping[str, WatermarkValue]) -> dict[str, WatermarkValue]:
    return {name: larger(old.get(name), new.get(name)) for name in {**old, **new}}


def values(
    watermarks: Sequence[Watermark],
    progress: InputProgress,
    before: Mapping[str, WatermarkValue],
    time_us: int,
    idle: IdleTimeouts,
    evaluate: Evaluate,
) -> dict[str, WatermarkValue]:
    """Evaluate all watermarks at a processing time; none goes back behind `before`."""
    computed: dict[Watermark, WatermarkValue] = {}
    waiting = list(walk(watermarks))
    while waiting:
        ready = [watermark for watermark in waiting if all(part in computed for part in watermark.parts)]
        waiting = [watermark for watermark in waiting if watermark not in ready]
        computed.update(_round(ready, computed, progress, time_us, idle, evaluate))
        for watermark in ready:
            computed[watermark] = larger(before.get(watermark.name), computed[watermark])
    return {watermark.name: value for watermark, value in computed.items()}


def _round(
    ready: Sequence[Watermark],
    computed: Mapping[Watermark, WatermarkValue],
    progress: InputProgress,
    time_us: int,
    idle: IdleTimeouts,
    evaluate: Evaluate,
) -> dict[Watermark, WatermarkValue]:
    """Evaluate watermarks whose parts are known. Expressions that need Spark are evaluated in one query."""
    result: dict[Watermark, WatermarkValue] = {}
    requests: list[tuple[Watermark, tuple[str, str, Mapping[str, tuple[str, WatermarkValue]]]]] = []
    for watermark in ready:
        match watermark:
            case DeclaredWatermark():
                name = _seen_name(watermark)
                largest = progress.known(name, idle.at_us, idle.partitions.get(name, 0))
                finished = progress.ended or (progress.ending and watermark.note == "hold_back")
                if finished or largest is None or watermark.delay is None:
                    result[watermark] = INFINITE if finished else largest
                elif (quick := _minus(watermark, largest)) is not None:
                    result[watermark] = quick
                else:
                    requests.append(
                        (watermark, (f"`x` - ({watermark.delay})", watermark.type, {"x": (watermark.type, largest)}))
                    )
            case Extreme():
                result[watermark] = _extreme(watermark, computed, progress, idle)
            case WindowEdge():
                result[watermark] = _opened(watermark, computed[watermark.watermark])
            case Expression():
                columns = {column: (part.type, computed[part]) for column, part in watermark.over}
                bounds = [value for _, value in columns.values()]
                if INFINITE in bounds:
                    result[watermark] = INFINITE
                elif None in bounds:
                    result[watermark] = None
                else:
                    requests.append((watermark, (watermark.sql, watermark.type, columns)))
    for (watermark, _), value in zip(
        requests, evaluate([each for _, each in requests]) if requests else [], strict=True
    ):
        result[watermark] = value
    for watermark in ready:
        if isinstance(watermark, DeclaredWatermark):
            result[watermark] = _advance(watermark, result[watermark], progress, time_us, idle)
    return result


def _seen_name(watermark: DeclaredWatermark) -> str:
    return (
        replace(watermark, lag=0).name
        if watermark.note == "hold_back"
        else observed_name(watermark.relation, watermark.column)
    )


def _minus(watermark: DeclaredWatermark, value: WatermarkValue) -> WatermarkValue:
    """Subtract the delay where that is plain arithmetic; None if Spark has to evaluate it."""
    assert watermark.delay is not None
    if not isinstance(value, int):
        return None
    if watermark.type in TIMESTAMPS or watermark.type == "date":
        micros = plain_micros(watermark.delay)
        if micros is None or (watermark.type == "date" and micros % DAY_US):
            return None
        return value - (micros // DAY_US if watermark.type == "date" else micros)
    return value - int(watermark.delay) if watermark.delay.isdigit() else None


@cache
def plain_micros(sql: str) -> int | None:
    """Return an interval in microseconds; None if it depends on the calendar or is not an interval."""
    interval = length(parse_one(f"SELECT {sql}", read=Tidegate).expressions[0])
    return None if interval is None or interval.months else interval.micros


def _advance(
    watermark: DeclaredWatermark, value: WatermarkValue, progress: InputProgress, time_us: int, idle: IdleTimeouts
) -> WatermarkValue:
    """Apply ADVANCE, idle time and the lag."""
    if value == INFINITE:
        return value
    if watermark.relation == BUS and watermark.note == "watermark":
        value = _of_events(value, progress, time_us, idle)
    elif watermark.note != "hold_back":
        value = larger(value, progress.advanced.get(observed_name(watermark.relation, watermark.column)))
        quiet = idle.relations.get(watermark.relation)
        last = progress.rows.get(watermark.relation)
        if quiet is not None and last is not None and isinstance(value, int) and watermark.type in TIMESTAMPS:
            passed, reached = idle.at_us - last, progress.reached.get(replace(watermark, lag=0).name)
            value = max(value, reached) if isinstance(reached, int) else value
            value = value + passed if passed >= quiet else value
    return value - watermark.lag if isinstance(value, int) and watermark.lag else value


def _of_events(value: WatermarkValue, progress: InputProgress, time_us: int, idle: IdleTimeouts) -> WatermarkValue:
    """Events are stamped by the clock: their watermark is never ahead of it, and is the clock while the bus is idle."""
    value = larger(value, progress.advanced.get(observed_name(BUS, TIME)))
    last = progress.rows.get(BUS, progress.since.get(BUS, idle.at_us))
    if BUS in idle.relations and idle.at_us - last >= idle.relations[BUS]:
        return idle.at_us
    return min(value, time_us) if isinstance(value, int) else value


def _extreme(
    watermark: Extreme,
    computed: Mapping[Watermark, WatermarkValue],
    progress: InputProgress,
    idle: IdleTimeouts,
) -> WatermarkValue:
    bounds = [computed[part] for part in watermark.watermarks if not _silent(part, progress, idle)]
    if watermark.which == "max":
        result: WatermarkValue = None
        for value in bounds:
            result = larger(result, value)
        return result
    if not bounds or None in bounds:
        return None
    result = INFINITE
    for value in bounds:
        if value != INFINITE:
            result = value if result == INFINITE or _number(value) < _number(result) else result
    return result


def _silent(watermark: Watermark, progress: InputProgress, idle: IdleTimeouts) -> bool:
    """True if it waits for an input that never had a row and is past its `idle_timeout`: that holds nothing back."""
    return bool(watermark.declarations) and all(
        each.relation in idle.relations
        and each.relation not in progress.rows
        and idle.at_us - progress.since.get(each.relation, idle.at_us) >= idle.relations[each.relation]
        for each in watermark.declarations
    )


def _opened(watermark: WindowEdge, value: WatermarkValue) -> WatermarkValue:
    if value is None or value == INFINITE:
        return value
    time_us = int(value) * (DAY_US if watermark.watermark.type == "date" else 1)
    start, end = earliest_open(watermark.window, time_us)
    return start if watermark.edge == "start" else end
