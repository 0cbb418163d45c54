"""Declared watermarks: those of an input's columns, and those that `LATENESS view.column d` gives a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type
from tidegate.testing.oracle.amounts import INFINITE, TIMES, Amount, Number, minus, number
from tidegate.testing.oracle.bags import Bag
from tidegate.testing.oracle.inference import AFTER, BEFORE, Watermark, Watermarks


@dataclass
class DeclaredWatermark:
    """The watermark that a declaration gives a column: the largest value seen minus `delay`; it never decreases.

    `rejects_late`: declared by LATENESS, so that rows below it are late on entry."""

    column: int
    kind: Type
    delay: Amount
    rejects_late: bool
    value: Number | None = None

    def observe(self, value: Any) -> None:
        axis = number(value, self.kind)
        if axis is not None:
            self.raise_to(minus(axis, self.delay))

    def raise_to(self, value: Number) -> None:
        self.value = value if self.value is None else max(self.value, value)

    def passed(self, value: Any) -> bool:
        """True if a value is below the watermark; never for NULL."""
        axis = number(value, self.kind)
        return axis is not None and self.value is not None and axis < self.value


@dataclass
class HoldBack:
    """A reorder buffer: a row with value x waits until x + `delay` was seen."""

    column: int
    kind: Type
    delay: Amount
    largest: Number | None = None

    def observe(self, value: Any) -> None:
        axis = number(value, self.kind)
        if axis is not None:
            self.largest = axis if self.largest is None else max(self.largest, axis)

    def holds(self, value: Any) -> bool:
        axis = number(value, self.kind)
        if axis is None or self.largest == INFINITE:
            return False
        return self.largest is None or minus(self.largest, self.delay) < axis


@dataclass
class InputTime:
    """What the declaration of an input says about time. Durations are microseconds, `idle_since` is a clock time."""

    watermarks: list[DeclaredWatermark] = field(default_factory=list)
    hold_backs: list[HoldBack] = field(default_factory=list)
    idle_timeout: int | None = None
    max_ahead: int | None = None
    idle_since: int | None = None
    _when_idle: dict[int, Number] = field(default_factory=dict)

    def watermark(self, column: int) -> Number | None:
        """The largest watermark that any declaration gives the column."""
        values = [each.value for each in self.watermarks if each.column == column and each.value is not None]
        return max(values) if values else None

    def has_watermark(self, column: int) -> bool:
        return any(each.column == column for each in self.watermarks)

    def has_watermark_for(self, column: int) -> bool:
        """True if one of the column's declarations is WATERMARK FOR."""
        return any(each.column == column and not each.rejects_late for each in self.watermarks)

    def late(self, row: tuple[Any, ...]) -> bool:
        """True if a row is late on entry: below the watermark of any LATENESS column."""
        return any(each.rejects_late and each.passed(row[each.column]) for each in self.watermarks)

    def passed(self, row: tuple[Any, ...]) -> bool:
        """True if a row is below any watermark."""
        return any(each.passed(row[each.column]) for each in self.watermarks)

    def observe(self, rows: list[tuple[Any, ...]], clock: int, busy: bool = True) -> None:
        """Raise the watermarks by the rows accepted in a step. `busy`: rows arrived, late or not."""
        for row in rows:
            for each in self.watermarks:
                if not self._too_far_ahead(each, row[each.column], clock):
                    each.observe(row[each.column])
        if busy:
            self._wait_from(clock)

    def _wait_from(self, clock: int) -> None:
        """The waiting for `idle_timeout` begins anew."""
        self.idle_since = clock
        values = enumerate(each.value for each in self.watermarks)
        self._when_idle = {index: value for index, value in values if value is not None}

    def advance(self, column: int, value: Any, clock: int) -> None:
        for each in self.watermarks:
            if each.column == column and (axis := number(value, each.kind)) is not None:
                each.raise_to(axis)
        for hold_back in self.hold_backs:
            if hold_back.column == column:
                hold_back.observe(value)
        self._wait_from(clock)

    def end(self) -> None:
        for each in self.watermarks:
            each.value = INFINITE

    def move_clock(self, clock: int) -> None:
        """The watermarks of an idle input move with the processing clock."""
        if self.idle_timeout is None or self.idle_since is None or clock - self.idle_since < self.idle_timeout:
            return
        for index, value in self._when_idle.items():
            if self.watermarks[index].kind.name in TIMES and value != INFINITE:
                self.watermarks[index].raise_to(int(value) + clock - self.idle_since)

    def _too_far_ahead(self, watermark: DeclaredWatermark, value: Any, clock: int) -> bool:
        axis = number(value, watermark.kind)
        if self.max_ahead is None or axis is None or watermark.kind.name not in TIMES:
            return False
        return axis > clock + self.max_ahead


class ViewLateness:
    """The LATENESS of a view's columns, by name: the view consists of its accepted rows, whose largest values give its
    columns watermarks."""

    def __init__(self) -> None:
        self.delays: dict[str, Amount] = {}
        self._values: dict[str, tuple[Number | None, Number | None]] = {}
        self._offered: Bag | None = None
        self._accepted: Bag | None = None

    def raise_inferred(self, inferred: Watermarks, kinds: dict[str, Type]) -> Watermarks:
        """The larger of the inferred and the declared watermark of each column."""
        watermarks = dict(inferred)
        for column in self.delays:
            other = inferred.get(column)
            from_watermark_for = other is not None and other.from_watermark_for
            watermarks[column] = Watermark(partial(self._at, column, other), kinds[column], from_watermark_for)
        return watermarks

    def accept(self, rows: Bag, kinds: Sequence[Type], names: Sequence[str], inferred: Watermarks) -> Bag:
        """The view's rows without late changes: those of rows below a watermark of the previous step."""
        if not self.delays:
            return rows
        if self._accepted is None:
            self._accepted = Bag(kinds)
        indexes = {name: [column.lower() for column in names].index(name) for name in self.delays}
        changes = rows.changes_since(self._offered)
        self._offered = rows
        self._values = {name: (self._values.get(name, (None, None))[AFTER],) * 2 for name in self.delays}
        for row, weight in changes:
            values = {name: number(row[index], kinds[index]) for name, index in indexes.items()}
            if not any(self._late(name, inferred.get(name), value) for name, value in values.items()):
                self._accepted.add(row, weight)
                self._observe(values if weight > 0 else {})
        return Bag(kinds, self._accepted.rows())

    def _late(self, name: str, inferred: Watermark | None, value: Number | None) -> bool:
        watermark = self._at(name, inferred, BEFORE, 0)
        return value is not None and watermark is not None and value < watermark

    def _observe(self, values: dict[str, Number | None]) -> None:
        for name, value in values.items():
            before, after = self._values[name]
            if value is not None:
                watermark = minus(value, self.delays[name])
                self._values[name] = (before, watermark if after is None else max(after, watermark))

    def _at(self, column: str, inferred: Watermark | None, moment: int, lag: int) -> Number | None:
        own = self._values.get(column, (None, None))[moment]
        own = own if own is None or not lag else minus(own, CalendarInterval(lag))
        other = inferred.at(moment, lag) if inferred is not None else None
        return max((value for value in (own, other) if value is not None), default=None)
