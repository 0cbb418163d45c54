"""Windows, one by one: which windows contain a time, which rows form a session, and which of them are late."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from tidegate.core.durations import CalendarInterval
from tidegate.testing.oracle.amounts import EPOCH, INFINITE, Number, add_months, plus

Extent = tuple[int, int]
"""Start and end of a window, in microseconds; the end is exclusive."""
T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """`kind`: tumble (`size`), hop (`size` every `slide`), cumulate (`size` in steps of `slide`), session (`size` is
    the gap). Aligned to 1970 plus `offset` microseconds."""

    kind: str
    size: CalendarInterval
    slide: CalendarInterval | None = None
    offset: int = 0

    def extents(self, time: int) -> list[Extent]:
        """All windows that contain a time; for a session, the one that a single row forms."""
        match self.kind:
            case "session":
                return [(time, self.end(time))]
            case "cumulate":
                return list(self._cumulate(time))
            case "hop":
                return list(self._hop(time))
        start = self._floor(time, self.size)
        return [(start, self.end(start))]

    def end(self, start: int) -> int:
        """The end of the window that starts at `start`; of a session, its end if no row follows the one at `start`."""
        return self._plus(start, self.size)

    def earliest_open(self, watermark: Number) -> tuple[Number, Number]:
        """Start and end of the earliest window that ends after a watermark."""
        if watermark == INFINITE:
            return INFINITE, INFINITE
        end, start = min((end, start) for start, end in self.extents(int(watermark)))
        return start, end

    def _hop(self, time: int) -> Iterator[Extent]:
        assert self.slide is not None
        start = self._floor(time, self.slide)
        while time < self.end(start):
            yield start, self.end(start)
            start = self._floor(start - 1, self.slide)

    def _cumulate(self, time: int) -> Iterator[Extent]:
        assert self.slide is not None
        start = self._floor(time, self.size)
        last, end = self.end(start), start
        while end < last:
            end = min(self._plus(end, self.slide), last)
            if time < end:
                yield start, end

    def _plus(self, time: int, step: CalendarInterval) -> int:
        """A point of the grid, shifted by a step: months are counted from the offset."""
        return int(plus(time - self.offset, step)) + self.offset

    def _floor(self, time: int, step: CalendarInterval) -> int:
        """The last point of the grid that is not after a time."""
        if not step.months:
            return time - (time - self.offset) % step.micros
        moment = EPOCH + timedelta(microseconds=time - self.offset)
        months = (moment.year - 1970) * 12 + moment.month - 1
        return add_months(0, months - months % step.months) + self.offset


def closed(end: int, watermark: Number | None, lateness: int = 0) -> bool:
    """True if a window with this end accepts no rows any more."""
    return watermark is not None and end + lateness <= watermark


@dataclass(frozen=True, eq=False)
class Entry(Generic[T]):
    """One copy of a row in a session window. Equal rows have equal `identity`."""

    key: Hashable
    time: int
    identity: Hashable
    row: T


@dataclass(frozen=True)
class Session(Generic[T]):
    """Rows of one key, each less than a gap after the previous one."""

    key: Hashable
    start: int
    end: int
    entries: tuple[Entry[T], ...]


def sessions(entries: Iterable[Entry[T]], window: Window) -> list[Session[T]]:
    """The sessions that rows form. A row at exactly last + gap starts a new one."""
    by_key: dict[Hashable, list[Session[T]]] = {}
    for entry in sorted(entries, key=lambda entry: entry.time):
        mine = by_key.setdefault(entry.key, [])
        if mine and entry.time < mine[-1].end:
            last = mine.pop()
            mine.append(Session(entry.key, last.start, window.end(entry.time), (*last.entries, entry)))
        else:
            mine.append(Session(entry.key, entry.time, window.end(entry.time), (entry,)))
    return [session for each in by_key.values() for session in each]


class SessionRows(Generic[T]):
    """All rows that a session window accepted. Sessions in `closed` cannot change any more."""

    def __init__(self, window: Window, lateness: int) -> None:
        self._window, self._lateness = window, lateness
        self._entries: list[Entry[T]] = []
        self.closed: list[Session[T]] = []

    def open(self) -> list[Session[T]]:
        return sessions(self._entries, self._window)

    def step(self, changes: Sequence[tuple[Entry[T], int]], watermark: Number | None) -> list[tuple[Entry[T], int]]:
        """Apply the changes of a step, each of weight 1 or -1; the late ones are not applied but returned."""
        self._close(watermark)
        inserts, late = self._apply_deletes(changes)
        before = set(self._entries)
        for entry in inserts:
            if self._reopens(entry) or self._stale(entry, before, watermark):
                late.append((entry, 1))
            else:
                self._entries.append(entry)
        for session in self.open():
            if closed(session.end, watermark, self._lateness) and before.isdisjoint(session.entries):
                late += [(entry, 1) for entry in session.entries]
                self._entries = [entry for entry in self._entries if entry not in session.entries]
        return late

    def _close(self, watermark: Number | None) -> None:
        for session in self.open():
            if closed(session.end, watermark, self._lateness):
                self.closed.append(session)
                self._entries = [entry for entry in self._entries if entry not in session.entries]

    def _apply_deletes(
        self, changes: Sequence[tuple[Entry[T], int]]
    ) -> tuple[list[Entry[T]], list[tuple[Entry[T], int]]]:
        """A delete cancels an insert of the same step, or removes a row of an open session, or is late. Returns the
        inserts that are left, and the late deletes."""
        inserts = [entry for entry, weight in changes if weight > 0]
        late = []
        for entry in (entry for entry, weight in changes if weight < 0):
            rows = inserts if any(_equal(entry, other) for other in inserts) else self._entries
            row = next((other for other in rows if _equal(entry, other)), None)
            if row is None:
                late.append((entry, -1))
            else:
                rows.remove(row)
        return inserts, late

    def _stale(self, entry: Entry[T], stored: set[Entry[T]], watermark: Number | None) -> bool:
        """True if the row is two gaps behind and not inside of a session that was open before."""
        if not closed(self._window.end(self._window.end(entry.time)), watermark, self._lateness):
            return False
        known = sessions(list(stored), self._window)
        return not any(each.key == entry.key and each.start <= entry.time < each.end for each in known)

    def _reopens(self, entry: Entry[T]) -> bool:
        """True if the row would join a closed session."""
        return any(
            session.key == entry.key and entry.time < session.end and session.start < self._window.end(entry.time)
            for session in self.closed
        )


def _equal(one: Entry[T], other: Entry[T]) -> bool:
    return (one.key, one.time, one.identity) == (other.key, other.time, other.identity)
