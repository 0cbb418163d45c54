"""A naive model of the interval join, in plain Python: it keeps every copy of every accepted row, tests every pair, and
computes every answer from scratch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.reference import Change, Row, picked, plain
from tests.model.reference_aggregates import ordering
from tests.model.reference_joins import Named, matches, output
from tests.model.reference_time import Outcome
from tidegate.ir.joins import ANTI, FULL, LEFT, PROCTIME, RIGHT, SEMI, IntervalJoinSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue

DAY = 86_400_000_000
PADDED = {LEFT: (0,), RIGHT: (1,), FULL: (0, 1), ANTI: (0,)}


@dataclass(frozen=True, eq=False)
class Copy:
    """One copy of a row, with the processing time of its arrival."""

    number: int
    row: Named
    arrived: int


@dataclass
class StepResult:
    """What a step reports besides its changes: late rows by side, the number of deleted rows that do not exist, and the
    corrections, as pairs of a retracted output row and the row that replaces it."""

    late: tuple[Outcome, Outcome] = field(default_factory=lambda: (Outcome(), Outcome()))
    missing: int = 0
    corrections: Counter[tuple[Row, Row]] = field(default_factory=Counter)


class IntervalJoin:
    """The join. `copies` are the current rows of each side."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._spec = spec
        self._early = spec.early if spec.kind in (LEFT, RIGHT, FULL) else None
        self.copies: tuple[list[Copy], list[Copy]] = ([], [])
        self._clock: Clock | None = None
        self._count = 0

    def step(self, clock: Clock, inputs: Sequence[Sequence[Change]]) -> StepResult:
        result, before = StepResult(), self._padded_copies()
        matched = {copy: self._partners(side, copy) for side, copy in self._all_copies()}
        for side, changes in enumerate(inputs):
            self._accept(side, self._in_time(side, changes, clock, result.late[side]), clock, result)
        self._clock = clock
        result.corrections = self._corrections(before, matched)
        return result

    def content(self) -> Counter[Row]:
        rows: Counter[Row] = Counter()
        for side, copy in self._padded_copies():
            rows[self._padded(side, copy)] += 1
        if self._spec.kind == SEMI:
            rows.update(self._padded(0, copy) for copy in self.copies[0] if self._partners(0, copy))
        elif self._spec.kind != ANTI:
            rows.update(self._pair(0, left, right) for left in self.copies[0] for right in self._partners(0, left))
        return rows

    def next_us(self) -> int | None:
        """The next processing time at which a row is emitted without further input."""
        assert self._clock is not None
        padded = self._padded_copies()
        waiting = [
            (side, copy)
            for side, copy in self._all_copies()
            if side in PADDED.get(self._spec.kind, ()) and (side, copy) not in padded and not self._partners(side, copy)
        ]
        return min((time for side, copy in waiting for time in self._times(side, copy)), default=None)

    def _times(self, side: int, copy: Copy) -> Iterator[int]:
        if self._spec.proctime:
            yield copy.row[self._spec.times[side]] + self._last(side) + 1
        if self._early is not None and self._early.mode == PROCTIME:
            yield copy.arrived + self._early.delay

    def _all_copies(self) -> list[tuple[int, Copy]]:
        return [(side, copy) for side in (0, 1) for copy in self.copies[side]]

    def _in_time(self, side: int, changes: Sequence[Change], clock: Clock, outcome: Outcome) -> list[Change]:
        if self._spec.proctime:
            stamp = {self._spec.times[side]: clock.time_us}
            return [replace(change, row={**change.row, **stamp}) for change in changes]
        watermarks = clock.previous_watermarks if self._spec.delayed[side] else clock.watermarks
        accepted = []
        for change in changes:
            time = change.row[self._spec.times[side]]
            if time is not None and time < self._watermark(side, watermarks):
                outcome.reject("late", change)
            else:
                accepted.append(change)
        return accepted

    def _accept(self, side: int, changes: Sequence[Change], clock: Clock, result: StepResult) -> None:
        """Changes of equal rows in one step are added up; a delete removes the copy that arrived last."""
        rows, net = dict[Row, Named](), Counter[Row]()
        for change in changes:
            key = picked(change.row, sorted(change.row))
            rows[key] = {name: plain(value) for name, value in change.row.items()}
            net[key] += change.weight
        for key, count in net.items():
            for _ in range(count):
                self._count += 1
                self.copies[side].append(Copy(self._count, rows[key], clock.time_us))
            for _ in range(-count):
                self._remove(side, rows[key], clock, result)

    def _remove(self, side: int, row: Mapping[str, Any], clock: Clock, result: StepResult) -> None:
        equal = [copy for copy in self.copies[side] if self._deletes(side, copy, row, clock)]
        if equal:
            self.copies[side].remove(max(equal, key=lambda copy: (copy.arrived, copy.number)))
        elif side in PADDED.get(self._spec.kind, ()) or self._can_match(side, Copy(0, row, 0)):
            result.missing += 1

    def _deletes(self, side: int, copy: Copy, row: Mapping[str, Any], clock: Clock) -> bool:
        """True if the delete of `row` can apply to a copy. In processing time, a copy that can match no row any more is
        evicted."""
        time = self._spec.times[side]
        columns = [name for name in sorted(row) if name != time or not self._spec.proctime]
        if picked(copy.row, columns) != picked(row, columns):
            return False
        if not self._spec.proctime:
            return True
        return self._can_match(side, copy) and clock.time_us <= copy.row[time] + max(self._last(side), 0)

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
        """How much later than a row the last row can be that matches it."""
        return self._spec.upper if side == 0 else -self._spec.lower

    def _can_match(self, side: int, copy: Copy) -> bool:
        keys = [(pair.left, pair.right)[side] for pair in self._spec.keys if not pair.null_safe]
        named = [copy.row[name] for name in (*keys, self._spec.times[side])]
        return None not in named and self._spec.lower <= self._spec.upper

    def _matches(self, left: Copy, right: Copy) -> bool:
        if not (self._can_match(0, left) and self._can_match(1, right)):
            return False
        apart = right.row[self._spec.times[1]] - left.row[self._spec.times[0]]
        return self._spec.lower <= apart <= self._spec.upper and matches(self._spec, left.row, right.row)

    def _partners(self, side: int, copy: Copy) -> list[Copy]:
        """The matches of a row, sorted by time, then by columns."""
        partners = [other for other in self.copies[1 - side] if self._matches(*_sides(side, copy, other))]
        time, columns = self._spec.times[1 - side], self._spec.columns[1 - side]
        return sorted(partners, key=lambda other: [other.row[time], *(ordering(other.row[name]) for name in columns)])

    def _padded_copies(self) -> set[tuple[int, Copy]]:
        """The rows that were emitted padded, because they match none."""
        if self._clock is None:
            return set()
        return {
            (side, copy)
            for side in PADDED.get(self._spec.kind, ())
            for copy in self.copies[side]
            if not self._partners(side, copy) and (not self._can_match(side, copy) or self._is_due(side, copy))
        }

    def _is_due(self, side: int, copy: Copy) -> bool:
        time: int = copy.row[self._spec.times[side]]
        if self._now(1 - side) > time + self._last(side):
            return True
        if self._early is None:
            return False
        assert self._clock is not None
        if self._early.mode == PROCTIME:
            return self._clock.time_us - copy.arrived >= self._early.delay
        return bool(min(self._now(0), self._now(1)) >= time + self._early.delay)

    def _corrections(
        self, before: set[tuple[int, Copy]], matched: Mapping[Copy, list[Copy]]
    ) -> Counter[tuple[Row, Row]]:
        """The first match of a padded row retracts the padded row; the padded row replaces the last match."""
        corrections: Counter[tuple[Row, Row]] = Counter()
        after = self._padded_copies()
        for side, copy in self._all_copies():
            padded, partners = self._padded(side, copy), self._partners(side, copy)
            if (side, copy) in before and partners:
                corrections[padded, self._pair(side, copy, partners[0])] += 1
            if (side, copy) in after and matched.get(copy):
                corrections[self._pair(side, copy, matched[copy][0]), padded] += 1
        return corrections

    def _padded(self, side: int, copy: Copy) -> Row:
        rows = (copy.row, None) if side == 0 else (None, copy.row)
        return output(self._spec.outputs, *rows)

    def _pair(self, side: int, copy: Copy, other: Copy) -> Row:
        left, right = _sides(side, copy, other)
        return output(self._spec.outputs, left.row, right.row)


def _sides(side: int, copy: Copy, other: Copy) -> tuple[Copy, Copy]:
    return (copy, other) if side == 0 else (other, copy)
