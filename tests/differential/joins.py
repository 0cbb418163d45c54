"""Interval joins: every pair of accepted rows, and the rows that can no longer find a partner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.differential.held import Origin
from tests.differential.inputs import Relation, Row, Rows
from tests.differential.marks import Mark, has_reached, is_below, least, mapped
from tests.differential.pipeline import Join
from tests.differential.queries import Entry, LateRows

Stored = Counter[tuple[Row, int]]
"""Accepted rows, each with the clock of its arrival."""
INSTANT = 1e-6
"""Times are as fine as that: an excluded bound is one more."""


class Joined:
    def __init__(self, query: Join, left: Relation, right: Relation) -> None:
        self._query, self._left, self._right = query, left, right
        self._one_sided = query.kind in ("LEFT SEMI", "LEFT ANTI")
        right_columns = () if self._one_sided else tuple(f"b_{column}" for column in query.right_columns)
        self.columns = (*(f"a_{column}" for column in query.left_columns), *right_columns)
        self.key = None
        self.origins: dict[str, Origin] = {}
        self._lefts: Stored = Counter()
        self._rights: Stored = Counter()

    def accept(self, deltas: Mapping[str, Rows], clock: int) -> LateRows:
        late: LateRows = {}
        sides = ((self._left, self._query.left_time, self._lefts), (self._right, self._query.right_time, self._rights))
        for side, time, stored in sides:
            for row, weight in deltas.get(side.name, Counter()).items():
                at = side.record(row)[time]
                if is_below(at, side.before.of(time)):  # type: ignore[arg-type]
                    late.setdefault(side.name, []).append((row, weight))
                elif weight > 0:
                    stored[row, clock] += weight
                else:
                    _take_back(stored, row, -weight)
        return late

    def entries(self, clock: int) -> Counter[Entry]:
        found: Counter[Entry] = Counter()
        matched: set[tuple[str, Row]] = set()
        for (left, _), count in self._lefts.items():
            for (right, _), others in self._rights.items():
                if count and others and self._match(left, right):
                    matched |= {("left", left), ("right", right)}
                    if not self._one_sided:
                        found[self._entry(left, right)] += count * others
        if self._query.kind in ("LEFT", "FULL", "LEFT ANTI"):
            for (left, since), count in self._lefts.items():
                if count and ("left", left) not in matched and self._alone(True, left, since, clock):
                    found[self._entry(left, None)] += count
        if self._query.kind == "LEFT SEMI":
            for (left, _), count in self._lefts.items():
                if count and ("left", left) in matched:
                    found[self._entry(left, None)] += count
        if self._query.kind in ("RIGHT", "FULL"):
            for (right, since), count in self._rights.items():
                if count and ("right", right) not in matched and self._alone(False, right, since, clock):
                    found[self._entry(None, right)] += count
        return found

    def _match(self, left: Row, right: Row) -> bool:
        a, b = self._left.record(left), self._right.record(right)
        if any(a[one] is None or a[one] != b[other] for one, other in self._query.on):
            return False
        return self._near(a[self._query.left_time], b[self._query.right_time])

    def _near(self, left: Any, right: Any) -> bool:
        if left is None or right is None:
            return False
        query, distance = self._query, left - right
        above = distance > query.low or (distance == query.low and not query.open_low)
        return above and (distance < query.high or (distance == query.high and not query.open_high))

    def _alone(self, of_left: bool, row: Row, since: int, clock: int) -> bool:
        """True if a row without a match leaves: nothing can match it any more, or it has waited for long enough."""
        query = self._query
        record = (self._left if of_left else self._right).record(row)
        time = record[query.left_time if of_left else query.right_time]
        keys = [record[left if of_left else right] for left, right in query.on]
        empty = query.low > query.high or (query.low == query.high and (query.open_low or query.open_high))
        if time is None or None in keys or empty:
            return True
        assert isinstance(time, int)
        left_mark = self._left.now.of(query.left_time)
        right_mark = self._right.now.of(query.right_time)
        if of_left:
            other, last, excluded = right_mark, time - query.low, query.open_low
        else:
            other, last, excluded = left_mark, time + query.high, query.open_high
        if has_reached(other, last) and (excluded or other != last):
            return True
        if query.early is None or query.kind == "LEFT ANTI":
            return False
        if query.early.mode == "proctime":
            return clock >= since + query.early.delay
        return has_reached(least([left_mark, right_mark]), time + query.early.delay)

    def _entry(self, left: Row | None, right: Row | None) -> Entry:
        row = [None if left is None else self._left.record(left)[column] for column in self._query.left_columns]
        if not self._one_sided:
            row += [
                None if right is None else self._right.record(right)[column] for column in self._query.right_columns
            ]
        return Entry(tuple(row), tuple(row))

    def closing(self, which: str, lag: int = 0) -> Mapping[str, Mark]:
        return self.marks(which, lag)

    def marks(self, which: str, lag: int = 0) -> dict[str, Mark]:
        query = self._query
        left = getattr(self._left, which).of(query.left_time, lag)
        right = getattr(self._right, which).of(query.right_time, lag)
        found = {
            f"a_{query.left_time}": least([left, mapped(right, lambda at: at + query.low + query.open_low * INSTANT)]),
            f"b_{query.right_time}": least(
                [right, mapped(left, lambda at: at - query.high + query.open_high * INSTANT)]
            ),
        }
        return {name: mark for name, mark in found.items() if mark is not None and name in self.columns}


def _take_back(stored: Stored, row: Row, count: int) -> None:
    """Remove the earliest of equal rows."""
    for one, since in sorted((entry for entry in stored if entry[0] == row), key=lambda entry: entry[1]):
        taken = min(count, stored[one, since])
        stored[one, since] -= taken
        count -= taken
