"""A naive model of the interval join, in plain Python: it keeps every row that was ever accepted, each copy by itself,
holds every row against every other, and answers from scratch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.reference import Change, Row, ordering, picked, plain
from tests.model.reference_time import Outcome
from tidegate.ir.joins import ANTI, FULL, LEFT, PROCTIME, RIGHT, SEMI, Comparison, IntervalJoinSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue

DAY = 86_400_000_000
PADDED = {LEFT: (0,), RIGHT: (1,), FULL: (0, 1), ANTI: (0,)}

TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(ordering(a) == ordering(b)),
    "<>": lambda a, b: bool(ordering(a) != ordering(b)),
    "<": lambda a, b: bool(ordering(a) < ordering(b)),
    "<=": lambda a, b: bool(ordering(a) <= ordering(b)),
    ">": lambda a, b: bool(ordering(a) > ordering(b)),
    ">=": lambda a, b: bool(ordering(a) >= ordering(b)),
}


@dataclass(frozen=True, eq=False)
class Copy:
    """One copy of a row, with the processing time at which it came."""

    number: int
    row: Mapping[str, Any]
    came: int


@dataclass
class Told:
    """What a step says besides its changes: rows too late (by side), rows to take back that are not there, and which
    output rows correct each other: (the one that goes, the one that comes)."""

    late: tuple[Outcome, Outcome] = field(default_factory=lambda: (Outcome(), Outcome()))
    missing: int = 0
    corrections: Counter[tuple[Row, Row]] = field(default_factory=Counter)


class Intervals:
    """The join. `copies` are the rows of each side that are there."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._spec = spec
        self._early = spec.early if spec.kind in (LEFT, RIGHT, FULL) else None
        self.copies: tuple[list[Copy], list[Copy]] = ([], [])
        self._clock: Clock | None = None
        self._given = 0

    def step(self, clock: Clock, inputs: Sequence[Sequence[Change]]) -> Told:
        told, before = Told(), self._singles()
        matched = {copy: self._partners(side, copy) for side, copy in self._everyone()}
        for side, changes in enumerate(inputs):
            self._accept(side, self._in_time(side, changes, clock, told.late[side]), clock, told)
        self._clock = clock
        told.corrections = self._corrections(before, matched)
        return told

    def content(self) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for side, copy in self._singles():
            found[self._padded(side, copy)] += 1
        if self._spec.kind == SEMI:
            found.update(self._padded(0, copy) for copy in self.copies[0] if self._partners(0, copy))
        elif self._spec.kind != ANTI:
            found.update(self._pair(0, left, right) for left in self.copies[0] for right in self._partners(0, left))
        return found

    def next_us(self) -> int | None:
        """The processing time at which the next row leaves by itself, as things stand."""
        assert self._clock is not None
        out = self._singles()
        waiting = [
            (side, copy)
            for side, copy in self._everyone()
            if side in PADDED.get(self._spec.kind, ()) and (side, copy) not in out and not self._partners(side, copy)
        ]
        return min((time for side, copy in waiting for time in self._times(side, copy)), default=None)

    def _times(self, side: int, copy: Copy) -> Iterator[int]:
        if self._spec.proctime:
            yield copy.row[self._spec.times[side]] + self._last(side) + 1
        if self._early is not None and self._early.mode == PROCTIME:
            yield copy.came + self._early.delay

    def _everyone(self) -> list[tuple[int, Copy]]:
        return [(side, copy) for side in (0, 1) for copy in self.copies[side]]

    def _in_time(self, side: int, changes: Sequence[Change], clock: Clock, refused: Outcome) -> list[Change]:
        if self._spec.proctime:
            stamp = {self._spec.times[side]: clock.time_us}
            return [replace(change, row={**change.row, **stamp}) for change in changes]
        watermarks = clock.previous_watermarks if self._spec.delayed[side] else clock.watermarks
        taken = []
        for change in changes:
            time = change.row[self._spec.times[side]]
            if time is not None and time < self._watermark(side, watermarks):
                refused.reject("late", change)
            else:
                taken.append(change)
        return taken

    def _accept(self, side: int, changes: Sequence[Change], clock: Clock, told: Told) -> None:
        """Changes of equal rows in one step add up; what goes is the copy that came last."""
        rows, net = {}, Counter[Row]()
        for change in changes:
            key = picked(change.row, sorted(change.row))
            rows[key] = change.row
            net[key] += change.weight
        for key, count in net.items():
            for _ in range(count):
                self._given += 1
                self.copies[side].append(Copy(self._given, rows[key], clock.time_us))
            for _ in range(-count):
                self._remove(side, rows[key], clock, told)

    def _remove(self, side: int, row: Mapping[str, Any], clock: Clock, told: Told) -> None:
        alike = [copy for copy in self.copies[side] if self._takes(side, copy, row, clock)]
        if alike:
            self.copies[side].remove(max(alike, key=lambda copy: (copy.came, copy.number)))
        elif side in PADDED.get(self._spec.kind, ()) or self._able(side, Copy(0, row, 0)):
            told.missing += 1

    def _takes(self, side: int, copy: Copy, row: Mapping[str, Any], clock: Clock) -> bool:
        """Whether taking back a row can mean a copy. In processing time it must not be forgotten: that is when it can
        meet no row any more."""
        time = self._spec.times[side]
        columns = [name for name in sorted(row) if name != time or not self._spec.proctime]
        if picked(copy.row, columns) != picked(row, columns):
            return False
        if not self._spec.proctime:
            return True
        return self._able(side, copy) and clock.time_us <= copy.row[time] + max(self._last(side), 0)

    def _watermark(self, side: int, watermarks: Mapping[str, WatermarkValue]) -> float:
        name = self._spec.watermarks[side]
        watermark = None if name is None else watermarks.get(name)
        if watermark is None or watermark == INFINITE:
            return -math.inf if watermark is None else math.inf
        return int(watermark) * (DAY if self._spec.watermark_types[side] == "date" else 1)

    def _now(self, side: int) -> float:
        assert self._clock is not None
        return self._clock.time_us if self._spec.proctime else self._watermark(side, self._clock.watermarks)

    def _last(self, side: int) -> int:
        """How long after a row the last one comes that it can meet."""
        return self._spec.upper if side == 0 else -self._spec.lower

    def _able(self, side: int, copy: Copy) -> bool:
        keys = [(pair.left, pair.right)[side] for pair in self._spec.keys if not pair.null_safe]
        named = [copy.row[name] for name in (*keys, self._spec.times[side])]
        return None not in named and self._spec.lower <= self._spec.upper

    def _meets(self, left: Copy, right: Copy) -> bool:
        if not (self._able(0, left) and self._able(1, right)):
            return False
        apart = right.row[self._spec.times[1]] - left.row[self._spec.times[0]]
        keys = [Comparison(pair.left, "<=>" if pair.null_safe else "=", pair.right) for pair in self._spec.keys]
        tests = [_holds(test, left.row, right.row) for test in (*keys, *self._spec.conditions)]
        return all([self._spec.lower <= apart <= self._spec.upper, *tests])

    def _partners(self, side: int, copy: Copy) -> list[Copy]:
        """What a row meets, the smallest first: by time, then by columns."""
        found = [other for other in self.copies[1 - side] if self._meets(*_sides(side, copy, other))]
        time, columns = self._spec.times[1 - side], self._spec.columns[1 - side]
        return sorted(
            found, key=lambda other: [other.row[time], *(ordering(plain(other.row[name])) for name in columns)]
        )

    def _singles(self) -> set[tuple[int, Copy]]:
        """The rows that are out because they meet none."""
        if self._clock is None:
            return set()
        return {
            (side, copy)
            for side in PADDED.get(self._spec.kind, ())
            for copy in self.copies[side]
            if not self._partners(side, copy) and (not self._able(side, copy) or self._waited(side, copy))
        }

    def _waited(self, side: int, copy: Copy) -> bool:
        time: int = copy.row[self._spec.times[side]]
        if self._now(1 - side) > time + self._last(side):
            return True
        if self._early is None:
            return False
        assert self._clock is not None
        if self._early.mode == PROCTIME:
            return self._clock.time_us - copy.came >= self._early.delay
        return bool(min(self._now(0), self._now(1)) >= time + self._early.delay)

    def _corrections(
        self, before: set[tuple[int, Copy]], matched: Mapping[Copy, list[Copy]]
    ) -> Counter[tuple[Row, Row]]:
        """Where the first match of a row takes its padding back, or its padding comes when it has lost the last."""
        found: Counter[tuple[Row, Row]] = Counter()
        after = self._singles()
        for side, copy in self._everyone():
            padded, partners = self._padded(side, copy), self._partners(side, copy)
            if (side, copy) in before and partners:
                found[padded, self._pair(side, copy, partners[0])] += 1
            if (side, copy) in after and matched.get(copy):
                found[self._pair(side, copy, matched[copy][0]), padded] += 1
        return found

    def _padded(self, side: int, copy: Copy) -> Row:
        outputs = self._spec.outputs
        return tuple(plain(copy.row[taken.column]) if taken.side == side else None for taken in outputs)

    def _pair(self, side: int, copy: Copy, other: Copy) -> Row:
        rows = _sides(side, copy, other)
        return tuple(plain(rows[taken.side].row[taken.column]) for taken in self._spec.outputs)


def _sides(side: int, copy: Copy, other: Copy) -> tuple[Copy, Copy]:
    return (copy, other) if side == 0 else (other, copy)


def _holds(test: Comparison, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    one, other = left[test.left], right[test.right]
    if test.op == "<=>":
        return bool(plain(one) == plain(other))
    return one is not None and other is not None and bool(TESTS[test.op](plain(one), plain(other)))
