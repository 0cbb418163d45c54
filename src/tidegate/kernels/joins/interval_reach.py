"""Which rows lie within reach of others: they have the same code of the key, and a time in an interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tidegate.kernels.joins.pairs import MANY
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.search import Places, spread


class Points(NamedTuple):
    """Rows as they are found: by code, and by time within it."""

    codes: Ints
    times: Ints

    def at(self, rows: Places | None) -> Points:
        return self if rows is None else Points(self.codes[rows], self.times[rows])


class Spans(NamedTuple):
    """What is sought: rows of a code with times from `low` to `high`."""

    codes: Ints
    low: Ints
    high: Ints

    def at(self, rows: Places | None) -> Spans:
        return self if rows is None else Spans(self.codes[rows], self.low[rows], self.high[rows])


def within_reach(spans: Spans, points: Points) -> Iterator[tuple[Places, Places]]:
    """Numbers of spans and of the points that lie in them, in blocks of about `MANY`; codes that are alike may be taken
    for equal. Costs what is found, and the sorting of both: places that come in order are found much faster."""
    if not (len(spans.codes) and len(points.codes)):
        return
    line = _Line(points)
    rows, order = np.argsort(spans.codes), np.argsort(line.places)
    sorted_places, codes = line.places[order], spans.codes[rows]
    start = np.searchsorted(sorted_places, line.at(codes, spans.low[rows]), "left")
    count = np.searchsorted(sorted_places, line.at(codes, spans.high[rows]), "right") - start
    found = np.flatnonzero(count > 0)
    before = np.cumsum(count[found]) - count[found]
    for part in np.split(found, np.flatnonzero(np.diff(before // MANY)) + 1) if len(found) else ():
        yield np.repeat(rows[part], count[part]), order[spread(start[part], count[part])]


class _Line:
    """Codes and times as one number, by which points are sorted in one go: the time, as far as points have any, in the
    low bits, and as much of the code as there is room for in the high ones."""

    def __init__(self, points: Points) -> None:
        self._first, self._last = int(points.times.min()), int(points.times.max())
        self._bits = min((self._last - self._first + 2).bit_length(), 61)
        self._codes = (1 << (62 - self._bits)) - 1
        self.places = self.at(points.codes, points.times)

    def at(self, codes: Ints, times: Ints) -> Ints:
        """Where a time lies among those of its code: before or after them all, if it is outside."""
        inside = np.clip(times, self._first - 1, self._last + 1) - self._first
        return ((codes & self._codes) << self._bits) + inside
