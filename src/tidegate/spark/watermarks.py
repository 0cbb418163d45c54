"""InputProgress and waterlines on the driver: what the rows of a step move, and what every line is afterwards."""

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
class InputProgress:
    """How far the inputs are, by name: the largest values seen, the values set by ADVANCE, the processing time of a
    relation's last row, and since when it is read. `shards`: for each partition of a partitioned source its largest
    value and the time of its last row. `ending`: no more rows will come, and held-back rows are released; `ended`: no
    row at all will come."""

    seen: Mapping[str, WatermarkValue] = field(default_factory=dict)
    advanced: Mapping[str, WatermarkValue] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[str, int] = field(default_factory=dict)
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

    def begun(self, relations: Iterable[str], time_us: int) -> InputProgress:
        """Return the progress with further relations that are read from now on."""
        return replace(self, since={**dict.fromkeys(relations, time_us), **self.since})

    def with_shards(
        self, name: str, known: Iterable[str], came: Mapping[str, WatermarkValue], time_us: int
    ) -> InputProgress:
        """Return the progress with the known partitions of a source, and the values that a step brought on some."""
        before = self.shards.get(name, {})
        found = {shard: before.get(shard, (None, time_us)) for shard in {**before, **dict.fromkeys(known), **came}}
        found |= {shard: (larger(found[shard][0], value), time_us) for shard, value in came.items()}
        return replace(self, shards={**self.shards, name: found})

    def known(self, name: str, time_us: int, quiet: int) -> WatermarkValue:
        """Return the largest value seen; of a partitioned source the smallest of its partitions, since the next row of
        the slowest is not late. A partition without rows for `quiet` microseconds is idle and holds nothing back."""
        shards = self.shards.get(name)
        if not shards:
            return self.seen.get(name)
        awake = [value for value, came in shards.values() if time_us - came < quiet]
        if awake:
            return None if None in awake else min(awake, key=_number)
        return max((value for value, _ in shards.values() if value is not None), key=_number, default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": dict(self.seen),
            "advanced": dict(self.advanced),
            "rows": dict(self.rows),
            "since": dict(self.since),
            "shards": {name: {shard: list(at) for shard, at in found.items()} for name, found in self.shards.items()},
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
    lines: Sequence[Watermark],
    progress: InputProgress,
    before: Mapping[str, WatermarkValue],
    time_us: int,
    idle: Mapping[str, int],
    quiet: Mapping[str, int],
    evaluate: Evaluate,
) -> dict[str, WatermarkValue]:
    """Evaluate all watermarks; none goes back behind `before`. `idle`: each `idle_timeout` in microseconds; `quiet`:
    the idle timeout of partitions, by the name of the observed column."""
    found: dict[Watermark, WatermarkValue] = {}
    waiting = list(walk(lines))
    while waiting:
        ready = [line for line in waiting if all(part in found for part in line.parts)]
        waiting = [line for line in waiting if line not in ready]
        found.update(_round(ready, found, progress, time_us, idle, quiet, evaluate))
        for line in ready:
            found[line] = larger(before.get(line.name), found[line])
    return {line.name: value for line, value in found.items()}


def _round(
    ready: Sequence[Watermark],
    found: Mapping[Watermark, WatermarkValue],
    progress: InputProgress,
    time_us: int,
    idle: Mapping[str, int],
    quiet: Mapping[str, int],
    evaluate: Evaluate,
) -> dict[Watermark, WatermarkValue]:
    """Evaluate watermarks whose parts are known. What needs Spark is evaluated in one query."""
    result: dict[Watermark, WatermarkValue] = {}
    asked: list[tuple[Watermark, tuple[str, str, Mapping[str, tuple[str, WatermarkValue]]]]] = []
    for line in ready:
        match line:
            case DeclaredWatermark():
                name = _seen_name(line)
                known = progress.known(name, time_us, quiet.get(name, 0))
                finished = progress.ended or (progress.ending and line.note == "hold_back")
                if finished or known is None or line.delay is None:
                    result[line] = INFINITE if finished else known
                elif (quick := _minus(line, known)) is not None:
                    result[line] = quick
                else:
                    asked.append((line, (f"`x` - ({line.delay})", line.type, {"x": (line.type, known)})))
            case Extreme():
                result[line] = _extreme(line, found, progress, time_us, idle)
            case WindowEdge():
                result[line] = _opened(line, found[line.watermark])
            case Expression():
                over = {column: (part.type, found[part]) for column, part in line.over}
                bounds = [value for _, value in over.values()]
                if INFINITE in bounds:
                    result[line] = INFINITE
                elif None in bounds:
                    result[line] = None
                else:
                    asked.append((line, (line.sql, line.type, over)))
    for (line, _), value in zip(asked, evaluate([each for _, each in asked]) if asked else [], strict=True):
        result[line] = value
    for line in ready:
        if isinstance(line, DeclaredWatermark):
            result[line] = _moved(line, result[line], progress, time_us, idle)
    return result


def _seen_name(line: DeclaredWatermark) -> str:
    return replace(line, lag=0).name if line.note == "hold_back" else observed_name(line.relation, line.column)


def _minus(line: DeclaredWatermark, value: WatermarkValue) -> WatermarkValue:
    """Subtract the delay where that is plain arithmetic; None if Spark has to evaluate it."""
    assert line.delay is not None
    if not isinstance(value, int):
        return None
    if line.type in TIMESTAMPS or line.type == "date":
        micros = plain_micros(line.delay)
        if micros is None or (line.type == "date" and micros % DAY_US):
            return None
        return value - (micros // DAY_US if line.type == "date" else micros)
    return value - int(line.delay) if line.delay.isdigit() else None


@cache
def plain_micros(sql: str) -> int | None:
    """Return an interval in microseconds; None if it depends on the calendar or is not an interval."""
    found = length(parse_one(f"SELECT {sql}", read=Tidegate).expressions[0])
    return None if found is None or found.months else found.micros


def _moved(
    line: DeclaredWatermark, value: WatermarkValue, progress: InputProgress, time_us: int, idle: Mapping[str, int]
) -> WatermarkValue:
    """Apply ADVANCE, idle time and the lag."""
    if value == INFINITE:
        return value
    if line.relation == BUS and line.note == "watermark":
        value = _of_events(value, progress, time_us, idle.get(BUS))
    elif line.note != "hold_back":
        value = larger(value, progress.advanced.get(observed_name(line.relation, line.column)))
        quiet = idle.get(line.relation)
        last = progress.rows.get(line.relation)
        if quiet is not None and last is not None and isinstance(value, int) and line.type in TIMESTAMPS:
            passed = time_us - last
            value = value + passed if passed >= quiet else value
    return value - line.lag if isinstance(value, int) and line.lag else value


def _of_events(value: WatermarkValue, progress: InputProgress, time_us: int, quiet: int | None) -> WatermarkValue:
    """Events are stamped by the clock: their watermark is never ahead of it, and is the clock while the bus is idle."""
    value = larger(value, progress.advanced.get(observed_name(BUS, TIME)))
    last = progress.rows.get(BUS, progress.since.get(BUS, time_us))
    if quiet is not None and time_us - last >= quiet:
        return time_us
    return min(value, time_us) if isinstance(value, int) else value


def _extreme(
    line: Extreme,
    found: Mapping[Watermark, WatermarkValue],
    progress: InputProgress,
    time_us: int,
    idle: Mapping[str, int],
) -> WatermarkValue:
    bounds = [found[part] for part in line.watermarks if not _silent(part, progress, time_us, idle)]
    if line.which == "max":
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


def _silent(line: Watermark, progress: InputProgress, time_us: int, idle: Mapping[str, int]) -> bool:
    """True if it waits for an input that never had a row and is past its `idle_timeout`: that holds nothing back."""
    return bool(line.declarations) and all(
        each.relation in idle
        and each.relation not in progress.rows
        and time_us - progress.since.get(each.relation, time_us) >= idle[each.relation]
        for each in line.declarations
    )


def _opened(line: WindowEdge, value: WatermarkValue) -> WatermarkValue:
    if value is None or value == INFINITE:
        return value
    time_us = int(value) * (DAY_US if line.watermark.type == "date" else 1)
    start, end = earliest_open(line.window, time_us)
    return start if line.edge == "start" else end
