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
from tidegate.kernels.state.sorting import Indexes, Mask, equal, spread


class Points(NamedTuple):
    """Stored rows by code, and by time within it."""

    codes: Ints
    times: Ints

    def at(self, rows: Indexes | None) -> Points:
        return self if rows is None else Points(self.codes[rows], self.times[rows])


class Spans(NamedTuple):
    """Searches: rows of a code with times from `low` to `high`."""

    codes: Ints
    low: Ints
    high: Ints

    def at(self, rows: Indexes | None) -> Spans:
        return self if rows is None else Spans(self.codes[rows], self.low[rows], self.high[rows])


def within_reach(spans: Spans, points: Points) -> Iterator[tuple[Indexes, Indexes]]:
    """Indices of spans and of the points within them, in blocks of about `MANY`; codes that agree in their low bits
    count as equal. Both sides are sorted first, because searching for sorted values is much faster."""
    if not (len(spans.codes) and len(points.codes)):
        return
    index = _SortKeys(points)
    rows, order = np.argsort(spans.codes), np.argsort(index.keys)
    sorted_keys, codes = index.keys[order], spans.codes[rows]
    start = np.searchsorted(sorted_keys, index.at(codes, spans.low[rows]), "left")
    count = np.searchsorted(sorted_keys, index.at(codes, spans.high[rows]), "right") - start
    matched = np.flatnonzero(count > 0)
    before = np.cumsum(count[matched]) - count[matched]
    for part in np.split(matched, np.flatnonzero(np.diff(before // MANY)) + 1) if len(matched) else ():
        yield np.repeat(rows[part], count[part]), order[spread(start[part], count[part])]


class _SortKeys:
    """Codes and times as one number, so that points are sorted once: the time, relative to the earliest point, in the
    low bits, and as many bits of the code as fit in the high ones."""

    def __init__(self, points: Points) -> None:
        self._first, self._last = int(points.times.min()), int(points.times.max())
        self._bits = min((self._last - self._first + 2).bit_length(), 61)
        self._codes = (1 << (62 - self._bits)) - 1
        self.keys = self.at(points.codes, points.times)

    def at(self, codes: Ints, times: Ints) -> Ints:
        """The sort key of a time within its code; times outside the range of all points sort before or after them."""
        inside = np.clip(times, self._first - 1, self._last + 1) - self._first
        return ((codes & self._codes) << self._bits) + inside


@dataclass
class Touched:
    """Rows after the step's changes, with their weights `before`; the first `known` rows are stored. `new_matches`
    counts the matches of each that it did not have before."""

    side: Side
    frame: pl.DataFrame
    before: Ints
    known: int

    def __post_init__(self) -> None:
        self.weights = numbers(self.frame, WEIGHT)
        self.changed: Mask = self.weights != self.before
        self.new_matches: Ints = np.zeros(self.frame.height, dtype=np.int64)

    def meet(self, rows: Indexes, other: Touched, others: Indexes) -> None:
        """Counts matches: for a stored row those with new rows, for a new row all."""
        if self.side.emits_matched is None:
            return
        known = np.where((self.before != 0)[rows], other.before[others], 0)
        np.add.at(self.new_matches, rows, other.weights[others] - known)


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
        self._stamp = side.time if side.proctime else side.arrived
        self._left: Ints = numbers(fresh, WEIGHT).copy()
        self.changes: Ints = np.zeros(near.height, dtype=np.int64)
        columns_compared = [name for name in side.columns if not (side.proctime and name == side.time)]
        for rows, indexes in within_reach(spans_of_changes(side, fresh, slices, limits), points_of(side, near, slices)):
            same_row = equal(fresh[rows], near[indexes], columns_compared)
            self._apply(*self._latest_first(rows[same_row], indexes[same_row]))

    def rest(self) -> tuple[pl.DataFrame, list[RowError]]:
        """The changes that apply to no stored row: new rows, and errors for rejected retractions."""
        rest = self._fresh.with_columns(pl.Series(WEIGHT, self._left)).filter(pl.col(WEIGHT) != 0)
        if self._stamp is None:
            return rest, []
        return rest.filter(pl.col(WEIGHT) > 0), reject_missing(self._side, rest.filter(pl.col(WEIGHT) < 0))

    def _latest_first(self, rows: Indexes, indexes: Indexes) -> tuple[Indexes, Indexes]:
        """For each change the stored rows that it may apply to, the latest arrivals first."""
        if self._stamp is None:
            return rows, indexes
        arrived = numbers(self._near, self._stamp)[indexes]
        mine = (self._left[rows] < 0) | (arrived == numbers(self._fresh, self._stamp)[rows])
        order = np.lexsort((-arrived, rows))
        order = order[mine[order]]
        return rows[order], indexes[order]

    def _apply(self, rows: Indexes, indexes: Indexes) -> None:
        remaining = self._left[rows]
        amounts = (
            remaining if self._stamp is None else _distribute(rows, remaining, numbers(self._near, WEIGHT)[indexes])
        )
        np.add.at(self.changes, indexes, amounts)
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
    """An error for each retraction of a row that does not exist."""
    columns = [name for name in side.columns if not (side.proctime and name == side.time)]
    errors = []
    for *values, weight in rows.select(*columns, WEIGHT).iter_rows():
        text = json_row(dict(zip(columns, values, strict=True)))
        errors += [RowError("", "ROW_NOT_FOUND", "there is no such row to take back", text)] * -weight
    return sorted(errors, key=lambda error: error.row)


def _distribute(rows: Indexes, remaining: Ints, available: Ints) -> Ints:
    """How much of its row's change applies to each stored row: all of an insertion, of a retraction at most the weight
    of the stored row."""
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = rows[1:] != rows[:-1]
    total = np.cumsum(available) - available
    before = total - total[np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))]
    return np.where(remaining < 0, -np.clip(-remaining - before, 0, available), remaining)
