"""What a view reads, micro-batch by micro-batch: an input from some row on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type, nullable_schema
from tidegate.testing.bags import Change, Row, consolidated
from tidegate.testing.inputs import Input
from tidegate.testing.rows import to_arrow
from tidegate.testing.time.amounts import Number, minus
from tidegate.testing.time.lines import Line, Lines

LinesNow = dict[int, Number | None]


@dataclass(frozen=True)
class Moment:
    """One micro-batch of an input: the rows it has then, what changed, its lines before and after."""

    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    lines: tuple[LinesNow, LinesNow]


class InputSource:
    """An input as a view reads it: of a source, only rows from `start` on."""

    def __init__(self, given: Input, start: int) -> None:
        self.name, self._input, self._start = given.name.lower(), given, start
        self.version = 0
        self.schema: pa.Schema = nullable_schema(given.columns)
        self.kinds: tuple[Type, ...] = given.kinds
        self._table: pa.Table | None = None
        self._now = Moment(tuple(given.rows), (), (lines_now(given), lines_now(given)))

    @property
    def lost(self) -> str | None:
        return self._input.unknown

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def changes(self) -> list[Change]:
        return consolidated(self._now.changes, self.kinds)

    def enter(self, now: Moment) -> None:
        """The next micro-batch."""
        self._now = now
        if now.changes:
            self.version += 1
            self._table = None

    def settle(self) -> None:
        """The micro-batch is over: whoever comes later sees its rows as they are, and no changes."""
        self._now = Moment(self._now.rows, (), (self._now.lines[1], self._now.lines[1]))

    def rows(self) -> list[Row]:
        return list(self._now.rows[self._start :])

    def table(self) -> pa.Table:
        if self._table is None:
            self._table = to_arrow(self.rows(), self.schema)
        return self._table

    def lines(self) -> Lines:
        time = self._input.time
        return {
            name.lower(): Line(partial(self._line, place), self.kinds[place], time.watermarked(place))
            for place, name in enumerate(self.names)
            if time.has(place)
        }

    def _line(self, place: int, moment: int, lag: int) -> Number | None:
        found = self._now.lines[moment][place]
        return found if found is None or not lag else minus(found, CalendarInterval(lag))


def lines_now(given: Input) -> LinesNow:
    """How far each column of an input has come."""
    return {place: given.time.line(place) for place in range(len(given.columns))}
