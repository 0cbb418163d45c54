"""Windows, one by one: which cover a time, and which rows make a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from tidegate.core.durations import CalendarInterval
from tidegate.testing.time.amounts import EPOCH, INFINITE, MICROSECOND, Number, add_months, plus

Extent = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """`kind`: tumble (`size`), hop (`size` every `slide`), cumulate (`size` in steps of `slide`), session (`size` is
    the gap). Aligned to 1970 plus `offset` microseconds."""

    kind: str
    size: CalendarInterval
    slide: CalendarInterval | None = None
    offset: int = 0

    def covering(self, time: int) -> list[Extent]:
        """All windows [start, end) that a time is in; a session is just as long as the row makes it."""
        match self.kind:
            case "session":
                return [(time, self.reach(time))]
            case "cumulate":
                return list(self._cumulated(time))
            case "hop":
                return list(self._hopping(time))
        start = self._floor(time, self.size)
        return [(start, self.reach(start))]

    def reach(self, start: int) -> int:
        """Where a window ends that starts there; where a session ends if no row follows this one."""
        return self._plus(start, self.size)

    def opened(self, line: Number) -> tuple[Number, Number]:
        """Start and end of the earliest window that ends after a line."""
        if line == INFINITE:
            return INFINITE, INFINITE
        end, start = min((end, start) for start, end in self.covering(int(line)))
        return start, end

    def _hopping(self, time: int) -> Iterator[Extent]:
        assert self.slide is not None
        start = self._floor(time, self.slide)
        while time < self.reach(start):
            yield start, self.reach(start)
            start = self._floor(start - 1, self.slide)

    def _cumulated(self, time: int) -> Iterator[Extent]:
        assert self.slide is not None
        start = self._floor(time, self.size)
        last, end = self.reach(start), start
        while end < last:
            end = min(self._plus(end, self.slide), last)
            if time < end:
                yield start, end

    def _plus(self, time: int, step: CalendarInterval) -> int:
        """A point of the grid, moved by a step: months are counted from the offset."""
        return int(plus(time - self.offset, step)) + self.offset

    def _floor(self, time: int, step: CalendarInterval) -> int:
        """The last point of the grid that is not after a time."""
        if not step.months:
            return time - (time - self.offset) % step.micros
        moment = EPOCH + timedelta(microseconds=time - self.offset)
        months = (moment.year - 1970) * 12 + moment.month - 1
        return add_months(0, months - months % step.months) + self.offset


def sessions(times: Iterable[int], gap: Window) -> list[tuple[Extent, list[int]]]:
    """The sessions that rows make, with the times in each: a row at exactly last + gap begins a new one."""
    found: list[tuple[Extent, list[int]]] = []
    for time in sorted(set(times)):
        if found and time < found[-1][0][1]:
            (start, _), members = found[-1]
            found[-1] = ((start, gap.reach(time)), [*members, time])
        else:
            found.append(((time, gap.reach(time)), [time]))
    return found


def shown(micros: int) -> str:
    """A moment, for messages."""
    return str((EPOCH + micros * MICROSECOND).replace(tzinfo=None))
