"""Which rows a window takes: the late ones stay outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.types import Type
from tidegate.testing.bags import Bag, Row
from tidegate.testing.time.amounts import Number
from tidegate.testing.time.windows import Extent, Window, sessions


@dataclass(frozen=True)
class Candidate:
    """A change of a row that passed the WHERE: the windows it asks for, and the values its session is per."""

    row: Row
    weight: int
    time: int
    windows: tuple[Extent, ...]
    key: tuple[Any, ...] = ()


@dataclass
class Taken:
    """The rows that a window has taken, with their windows. `judges`: rows can be late here; `lateness` is in
    microseconds. `late` are the rows that no window took."""

    window: Window
    kinds: tuple[Type, ...]
    judges: bool
    lateness: int
    late: list[Row] = field(default_factory=list)
    _pieces: dict[tuple[Extent, tuple[Any, ...]], Bag] = field(default_factory=dict)

    def step(self, candidates: Iterable[Candidate], frontier: Number | None) -> bool:
        """Takes the changes of a micro-batch; `frontier` is that before it. Whether anything changed."""
        given = list(candidates)
        if self.window.kind == "session":
            return self._step_sessions(given, frontier)
        changed = False
        for one in given:
            open_ones = [extent for extent in one.windows if not self._closed(extent[1], frontier)]
            for extent in open_ones:
                changed |= self._bag(extent, ()).add(one.row, one.weight)
            if not open_ones:
                self.late += [one.row] * abs(one.weight)
        return changed

    def rows(self) -> list[tuple[Row, Extent]]:
        """Every row once for each of its windows."""
        if self.window.kind != "session":
            return [(row, extent) for (extent, _), bag in self._pieces.items() for row in bag.rows()]
        found = []
        for key in {key for _, key in self._pieces}:
            for extent, times in self._sessions(key):
                found += [(row, extent) for time in times for row in self._bag((time, time), key).rows()]
        return found

    def _step_sessions(self, given: list[Candidate], frontier: Number | None) -> bool:
        before = {one.key: self._sessions(one.key) for one in given}
        welcome = []
        for one in given:
            met = [extent for extent, times in before[one.key] if self._meets(one, extent, times)]
            if any(self._closed(extent[1], frontier) for extent in met):
                self.late += [one.row] * abs(one.weight)
            else:
                welcome.append(one)
        known = {key: {time for _, times in found for time in times} for key, found in before.items()}
        changed = False
        for one in sorted(welcome, key=lambda one: one.weight):
            changed |= self._bag((one.time, one.time), one.key).add(one.row, one.weight)
        return self._refuse_closed(welcome, known, frontier) or changed

    def _meets(self, one: Candidate, extent: Extent, times: list[int]) -> bool:
        """Whether a row that comes would join a session; whether one that goes is in it."""
        if one.weight < 0:
            return one.time in times
        return one.time < extent[1] and extent[0] < self.window.reach(one.time)

    def _refuse_closed(self, came: list[Candidate], known: dict[Any, set[int]], frontier: Number | None) -> bool:
        """New rows that make a session of their own which is closed for good are late, too."""
        refused = False
        for one in came:
            mine = [(extent, times) for extent, times in self._sessions(one.key) if one.time in times]
            for extent, times in mine if one.weight > 0 else ():
                if self._closed(extent[1], frontier) and not known[one.key] & set(times):
                    self._bag((one.time, one.time), one.key).add(one.row, -one.weight)
                    self.late += [one.row] * abs(one.weight)
                    refused = True
        return refused

    def _sessions(self, key: tuple[Any, ...]) -> list[tuple[Extent, list[int]]]:
        return sessions(self._times(key), self.window)

    def _closed(self, end: int, frontier: Number | None) -> bool:
        return self.judges and frontier is not None and end + self.lateness <= frontier

    def _bag(self, extent: Extent, key: tuple[Any, ...]) -> Bag:
        return self._pieces.setdefault((extent, key), Bag(self.kinds))

    def _times(self, key: tuple[Any, ...]) -> list[int]:
        return [extent[0] for (extent, other), bag in self._pieces.items() if other == key and bag]
