"""Which rows lie within reach of others: they have the same code of the key, and a time in an interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tidegate.kernels.joins.pairs import MANY
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.merge import sort_order
from tidegate.kernels.state.search import Places, first_after, first_at, spread


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
    """Numbers of spans and of the points that lie in them, in blocks of about `MANY`. Costs what is found, and the
    sorting of both: a search for many places is much faster where they come in order."""
    rows, order = sort_order(spans.codes, spans.low), sort_order(points.codes, points.times)
    sought = spans.codes[rows]
    codes, times = points.codes[order], points.times[order]
    start = first_at(codes, times, sought, spans.low[rows])
    count = first_after(codes, times, sought, spans.high[rows]) - start
    found = np.flatnonzero(count > 0)
    before = np.cumsum(count[found]) - count[found]
    for part in np.split(found, np.flatnonzero(np.diff(before // MANY)) + 1) if len(found) else ():
        yield np.repeat(rows[part], count[part]), order[spread(start[part], count[part])]
