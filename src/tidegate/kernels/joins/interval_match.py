"""Matching in an interval join: rows within reach of each other, and changes applied to stored rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.core.render import json_row
from tidegate.kernels.api import RowError
from tidegate.kernels.joins.interval_side import Limits, Side, Slices, numbers
from tidegate.kernels.joins.pairs import MANY
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.sorting import Mask, Places, equal, spread


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
    """Indices of spans and of the points within them, in blocks of about `MANY`; similar codes may be taken for equal.
    The cost is that of the result and of sorting both: a search for sorted places is much faster."""
    if not (len(spans.codes) and len(points.codes)):
        return
    index = _Places(points)
    rows, order = np.argsort(spans.codes), np.argsort(index.places)
    sorted_places, codes = index.places[order], spans.codes[rows]
    start = np.searchsorted(sorted_places, index.at(codes, spans.low[rows]), "left")
    count = np.searchsorted(sorted_places, index.at(codes, spans.high[rows]), "right") - start
    found = np.flatnonzero(count > 0)
    before = np.cumsum(count[found]) - count[found]
    for part in np.split(found, np.flatnonzero(np.diff(before // MANY)) + 1) if len(found) else ():
        yield np.repeat(rows[part], count[part]), order[spread(start[part], count[part])]


class _Places:
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


@dataclass
class Touched:
    """Rows after the step's changes, with their weights `before`; the first `known` rows are stored. `found` counts the
    matches of each that it did not have before."""

    side: Side
    frame: pl.DataFrame
    before: Ints
    known: int

    def __post_init__(self) -> None:
        self.weights = numbers(self.frame, WEIGHT)
        self.changed: Mask = self.weights != self.before
        self.found: Ints = np.zeros(self.frame.height, dtype=np.int64)

    def meet(self, rows: Places, other: Touched, others: Places) -> None:
        """Counts matches: for a stored row those with new rows, for a new row all."""
        if self.side.meets is None:
            return
        known = np.where((self.before != 0)[rows], other.before[others], 0)
        np.add.at(self.found, rows, other.weights[others] - known)


def touch_rows(side: Side, near: pl.DataFrame, changes: Ints, fresh: pl.DataFrame | None) -> Touched:
    """Stored rows, whose weights change, and new ones."""
    before = numbers(near, WEIGHT)
    rows = near.with_columns(pl.Series(WEIGHT, before + changes)) if changes.any() else near
    if fresh is None:
        return Touched(side, rows, before, near.height)
    frame = pl.concat([rows, fresh.select(rows.columns)], how="vertical_relaxed")
    return Touched(side, frame, np.concatenate([before, np.zeros(fresh.height, dtype=np.int64)]), near.height)


class BagChanges:
    """Applies the changes of a bag to its stored rows: `changes` of their weights.

    Where the processing time of arrival is stored, equal rows of several times exist side by side: a retraction removes
    those that arrived last, and is rejected if there are none.
    """

    def __init__(self, side: Side, near: pl.DataFrame, fresh: pl.DataFrame, slices: Slices, limits: Limits) -> None:
        self._side, self._near, self._fresh = side, near, fresh
        self._stamp = side.time if side.proctime else side.came
        self._left: Ints = numbers(fresh, WEIGHT).copy()
        self.changes: Ints = np.zeros(near.height, dtype=np.int64)
        same = [name for name in side.columns if not (side.proctime and name == side.time)]
        for rows, places in within_reach(spans_of_changes(side, fresh, slices, limits), points_of(side, near, slices)):
            alike = equal(fresh[rows], near[places], same)
            self._take(*self._in_turn(rows[alike], places[alike]))

    def rest(self) -> tuple[pl.DataFrame, list[RowError]]:
        """The changes that apply to no stored row: new rows, and errors for rejected retractions."""
        rest = self._fresh.with_columns(pl.Series(WEIGHT, self._left)).filter(pl.col(WEIGHT) != 0)
        if self._stamp is None:
            return rest, []
        return rest.filter(pl.col(WEIGHT) > 0), reject_missing(self._side, rest.filter(pl.col(WEIGHT) < 0))

    def _in_turn(self, rows: Places, places: Places) -> tuple[Places, Places]:
        """For each change the stored rows that it may apply to, the latest arrivals first."""
        if self._stamp is None:
            return rows, places
        came = numbers(self._near, self._stamp)[places]
        mine = (self._left[rows] < 0) | (came == numbers(self._fresh, self._stamp)[rows])
        order = np.lexsort((-came, rows))
        order = order[mine[order]]
        return rows[order], places[order]

    def _take(self, rows: Places, places: Places) -> None:
        wanted = self._left[rows]
        amounts = wanted if self._stamp is None else _shared(rows, wanted, numbers(self._near, WEIGHT)[places])
        np.add.at(self.changes, places, amounts)
        np.subtract.at(self._left, rows, amounts)


def points_of(side: Side, rows: pl.DataFrame, slices: Slices) -> Points:
    return Points(slices.codes(numbers(rows, HASH)), numbers(rows, side.time))


def spans_of(side: Side, rows: pl.DataFrame, slices: Slices) -> Spans:
    """The spans of the rows that rows of a side can match."""
    codes, times = points_of(side, rows, slices)
    return Spans(codes, times + side.low, times + side.high)


def spans_of_changes(side: Side, fresh: pl.DataFrame, slices: Slices, limits: Limits) -> Spans:
    """The spans of the stored rows that changes may apply to: at their time. In processing time a retraction has no
    time of its own; it may apply to any row that can still be retracted."""
    codes, times = points_of(side, fresh, slices)
    if not side.proctime:
        return Spans(codes, times, times)
    return Spans(codes, np.where(numbers(fresh, WEIGHT) < 0, limits.retractable_from, times), times)


def reject_missing(side: Side, rows: pl.DataFrame) -> list[RowError]:
    """Rows that go but are not there, or not any more."""
    columns = [name for name in side.columns if not (side.proctime and name == side.time)]
    found = []
    for *values, weight in rows.select(*columns, WEIGHT).iter_rows():
        text = json_row(dict(zip(columns, values, strict=True)))
        found += [RowError("", "ROW_NOT_FOUND", "there is no such row to take back", text)] * -weight
    return sorted(found, key=lambda error: error.row)


def _shared(rows: Places, wanted: Ints, there: Ints) -> Ints:
    """How much of its row's change each place takes: an insertion as a whole, a retraction as far as the place has
    rows."""
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = rows[1:] != rows[:-1]
    total = np.cumsum(there) - there
    before = total - total[np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))]
    return np.where(wanted < 0, -np.clip(-wanted - before, 0, there), wanted)
