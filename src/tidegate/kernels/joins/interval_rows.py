"""The rows of one side that a step looks at, and how its changes fall on those that are stored."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.api import RowError
from tidegate.kernels.joins.interval_limits import Limits
from tidegate.kernels.joins.interval_reach import Points, Spans, within_reach
from tidegate.kernels.joins.interval_side import Side, numbers
from tidegate.kernels.joins.interval_slices import Slices
from tidegate.kernels.ranking import Ints
from tidegate.kernels.refusals import plain
from tidegate.kernels.state.merge import equal
from tidegate.kernels.state.search import Mask, Places


@dataclass
class Touched:
    """Rows as they are after the step's changes, with the weights they had `before`; the first `known` are stored.
    `found`: how many rows of the other side each is seen to meet, more than it met before."""

    side: Side
    frame: pl.DataFrame
    before: Ints
    known: int

    def __post_init__(self) -> None:
        self.weights = numbers(self.frame, WEIGHT)
        self.changed: Mask = self.weights != self.before
        self.found: Ints = np.zeros(self.frame.height, dtype=np.int64)

    def meet(self, rows: Places, other: Touched, others: Places) -> None:
        """Counts what is met: by a row that was there before, the rows that are new; by a new row, all."""
        if self.side.meets is None:
            return
        known = np.where((self.before != 0)[rows], other.before[others], 0)
        np.add.at(self.found, rows, other.weights[others] - known)


def touched(side: Side, near: pl.DataFrame, changes: Ints, fresh: pl.DataFrame | None) -> Touched:
    """Stored rows, whose weights change, and new ones."""
    before = numbers(near, WEIGHT)
    rows = near.with_columns(pl.Series(WEIGHT, before + changes)) if changes.any() else near
    if fresh is None:
        return Touched(side, rows, before, near.height)
    frame = pl.concat([rows, fresh.select(rows.columns)], how="vertical_relaxed")
    return Touched(side, frame, np.concatenate([before, np.zeros(fresh.height, dtype=np.int64)]), near.height)


class Settling:
    """How changes of a bag fall on its stored rows: `changes` of their weights.

    Where the processing time at which a row came is kept with it, equal rows of several times stand beside each other:
    one that goes takes away those that came last, and is refused if there are none.
    """

    def __init__(self, side: Side, near: pl.DataFrame, fresh: pl.DataFrame, slices: Slices, limits: Limits) -> None:
        self._side, self._near, self._fresh = side, near, fresh
        self._stamp = side.time if side.proctime else side.came
        self._left: Ints = numbers(fresh, WEIGHT).copy()
        self.changes: Ints = np.zeros(near.height, dtype=np.int64)
        same = [name for name in side.columns if not (side.proctime and name == side.time)]
        for rows, places in within_reach(sought(side, fresh, slices, limits), points_of(side, near, slices)):
            alike = equal(fresh[rows], near[places], same)
            self._take(*self._in_turn(rows[alike], places[alike]))

    def rest(self) -> tuple[pl.DataFrame, list[RowError]]:
        """The changes that no stored row has taken: new rows, and those that are refused."""
        rest = self._fresh.with_columns(pl.Series(WEIGHT, self._left)).filter(pl.col(WEIGHT) != 0)
        if self._stamp is None:
            return rest, []
        return rest.filter(pl.col(WEIGHT) > 0), not_found(self._side, rest.filter(pl.col(WEIGHT) < 0))

    def _in_turn(self, rows: Places, places: Places) -> tuple[Places, Places]:
        """For each change the stored rows that it may fall on, first those that came last."""
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
    """Where the rows lie that rows of a side can meet."""
    codes, times = points_of(side, rows, slices)
    return Spans(codes, times + side.low, times + side.high)


def sought(side: Side, fresh: pl.DataFrame, slices: Slices, limits: Limits) -> Spans:
    """Where the stored rows lie that changes may fall on: at their time. In processing time a row that goes does not
    say when it came; it may be any that can still be taken back."""
    codes, times = points_of(side, fresh, slices)
    if not side.proctime:
        return Spans(codes, times, times)
    return Spans(codes, np.where(numbers(fresh, WEIGHT) < 0, limits.recalled, times), times)


def not_found(side: Side, rows: pl.DataFrame) -> list[RowError]:
    """Rows that go but are not there, or not any more."""
    columns = [name for name in side.columns if not (side.proctime and name == side.time)]
    found = []
    for *values, weight in rows.select(*columns, WEIGHT).iter_rows():
        text = json.dumps({name: plain(value) for name, value in zip(columns, values, strict=True)})
        found += [RowError("", "ROW_NOT_FOUND", "there is no such row to take back", text)] * -weight
    return sorted(found, key=lambda error: error.row)


def _shared(rows: Places, wanted: Ints, there: Ints) -> Ints:
    """How much of the change of its row each place takes, in turn: a row that comes is taken as a whole, of those that
    go each place gives what it has."""
    starts = np.ones(len(rows), dtype=np.bool_)
    starts[1:] = rows[1:] != rows[:-1]
    total = np.cumsum(there) - there
    before = total - total[np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))]
    return np.where(wanted < 0, -np.clip(-wanted - before, 0, there), wanted)
