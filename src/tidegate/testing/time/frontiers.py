"""The frontiers of an input: how far each annotated column has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.core.types import Type
from tidegate.testing.time.amounts import INFINITE, TIMES, Amount, Number, minus, number


@dataclass
class Frontier:
    """The waterline that a declaration gives a column: the largest value seen minus `delay`, never going back.

    `firm`: declared by LATENESS, so that rows below it are late at the door."""

    column: int
    kind: Type
    delay: Amount
    firm: bool
    line: Number | None = None

    def seen(self, value: Any) -> None:
        found = number(value, self.kind)
        if found is not None:
            self.raise_to(minus(found, self.delay))

    def raise_to(self, line: Number) -> None:
        self.line = line if self.line is None else max(self.line, line)

    def below(self, value: Any) -> bool:
        """Whether a value is below the line; NULL is below none."""
        found = number(value, self.kind)
        return found is not None and self.line is not None and found < self.line


@dataclass
class Hold:
    """A column with hold-back: a row with value x waits until x + `delay` was seen."""

    column: int
    kind: Type
    delay: Amount
    seen: Number | None = None

    def see(self, value: Any) -> None:
        found = number(value, self.kind)
        if found is not None:
            self.seen = found if self.seen is None else max(self.seen, found)

    def holds(self, value: Any) -> bool:
        found = number(value, self.kind)
        if found is None or self.seen == INFINITE:
            return False
        return self.seen is None or minus(self.seen, self.delay) < found


@dataclass
class Time:
    """All that the declaration of an input says about time. Durations are microseconds, `idle_since` is a clock."""

    frontiers: list[Frontier] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    idle_timeout: int | None = None
    max_ahead: int | None = None
    idle_since: int | None = None
    _at_rest: dict[int, Number] = field(default_factory=dict)

    def line(self, column: int) -> Number | None:
        """The frontier of a column: the largest that any of its declarations gives."""
        found = [one.line for one in self.frontiers if one.column == column and one.line is not None]
        return max(found) if found else None

    def has(self, column: int) -> bool:
        return any(one.column == column for one in self.frontiers)

    def watermarked(self, column: int) -> bool:
        """Whether WATERMARK FOR is among its declarations."""
        return any(one.column == column and not one.firm for one in self.frontiers)

    def late(self, row: tuple[Any, ...]) -> bool:
        """Whether a row is late at the door: below the line of any LATENESS column."""
        return any(one.firm and one.below(row[one.column]) for one in self.frontiers)

    def accept(self, rows: list[tuple[Any, ...]], clock: int, busy: bool = True) -> None:
        """Rows were accepted in a step, which is over: the frontiers move. `busy`: rows came, were they late or not."""
        for row in rows:
            for one in self.frontiers:
                if not self._too_far_ahead(one, row[one.column], clock):
                    one.seen(row[one.column])
        if busy:
            self.idle_since = clock
            self._at_rest = {place: one.line for place, one in enumerate(self.frontiers) if one.line is not None}

    def advance(self, column: int, value: Any) -> None:
        for one in self.frontiers:
            if one.column == column and (found := number(value, one.kind)) is not None:
                one.raise_to(found)
        for hold in self.holds:
            if hold.column == column:
                hold.see(value)

    def end(self) -> None:
        for one in self.frontiers:
            one.line = INFINITE

    def tick(self, clock: int) -> None:
        """The processing clock moved: an idle input's frontiers move with it."""
        if self.idle_timeout is None or self.idle_since is None or clock - self.idle_since < self.idle_timeout:
            return
        for place, line in self._at_rest.items():
            if self.frontiers[place].kind.name in TIMES and line != INFINITE:
                self.frontiers[place].raise_to(int(line) + clock - self.idle_since)

    def _too_far_ahead(self, frontier: Frontier, value: Any, clock: int) -> bool:
        found = number(value, frontier.kind)
        if self.max_ahead is None or found is None or frontier.kind.name not in TIMES:
            return False
        return found > clock + self.max_ahead
