"""`LATENESS view.col d`: a view that is its accepted rows, and the waterlines that gives it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type
from tidegate.testing.bags import Bag
from tidegate.testing.time.amounts import Amount, Number, minus, number
from tidegate.testing.time.lines import AFTER, BEFORE, Line, Lines


class Declared:
    """The LATENESS of a view's columns, by name, and how far they have come."""

    def __init__(self) -> None:
        self.delays: dict[str, Amount] = {}
        self._lines: dict[str, tuple[Number | None, Number | None]] = {}
        self._asked: Bag | None = None
        self._let: Bag | None = None

    def over(self, inferred: Lines, kinds: dict[str, Type]) -> Lines:
        """The larger of inferred and declared."""
        found = dict(inferred)
        for column in self.delays:
            other = inferred.get(column)
            found[column] = Line(
                partial(self._at, column, other), kinds[column], other is not None and other.watermarked
            )
        return found

    def let_through(self, rows: Bag, names: Sequence[str], inferred: Lines) -> Bag:
        """The view's rows without what came late: changes of rows below a line of the steps before."""
        if not self.delays:
            return rows
        if self._let is None:
            self._let = Bag(rows.kinds)
        places = {name: [one.lower() for one in names].index(name) for name in self.delays}
        changes = rows.changes_since(self._asked)
        self._asked = rows
        self._lines = {name: (self._lines.get(name, (None, None))[AFTER],) * 2 for name in self.delays}
        for row, weight in changes:
            values = {name: number(row[place], rows.kinds[place]) for name, place in places.items()}
            if not any(self._below(name, inferred.get(name), value) for name, value in values.items()):
                self._let.add(row, weight)
                self._see(values if weight > 0 else {})
        return Bag(rows.kinds, self._let.rows())

    def _below(self, name: str, inferred: Line | None, value: Number | None) -> bool:
        line = self._at(name, inferred, BEFORE, 0)
        return value is not None and line is not None and value < line

    def _see(self, values: dict[str, Number | None]) -> None:
        for name, value in values.items():
            before, after = self._lines[name]
            if value is not None:
                line = minus(value, self.delays[name])
                self._lines[name] = (before, line if after is None else max(after, line))

    def _at(self, column: str, inferred: Line | None, moment: int, lag: int) -> Number | None:
        own = self._lines.get(column, (None, None))[moment]
        own = own if own is None or not lag else minus(own, CalendarInterval(lag))
        other = inferred.at(moment, lag) if inferred is not None else None
        return max((one for one in (own, other) if one is not None), default=None)
