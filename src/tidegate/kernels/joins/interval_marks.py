"""Which output rows of a step belong together: a padding that is taken back and the pair that corrects it, or a pair
that is taken back and the padding that comes in its place."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.kernels.joins.interval_rows import Touched
from tidegate.kernels.joins.pairs import Pairs
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.search import Places

_LOW = (1 << 32) - 1
_NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass
class Changes:
    """Changes of the weights of output rows, one per row. Some are marked: `amounts` of the changes of `rows` stand by
    themselves under `marks`."""

    weights: Ints
    rows: Places = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    amounts: Ints = field(default_factory=lambda: _NONE)
    marks: Ints = field(default_factory=lambda: _NONE)

    def mark(self, rows: Places, amounts: Ints, marks: Ints) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.amounts = np.concatenate([self.amounts, amounts])
        self.marks = np.concatenate([self.marks, marks])

    def parted(self) -> tuple[Places, Ints, Ints]:
        """Numbers of rows with changes and marks (0: none); what is marked stands beside what is left of the row's."""
        left = self.weights.copy()
        np.subtract.at(left, self.rows, self.amounts)
        plain = np.flatnonzero(left)
        marks = np.concatenate([np.zeros(len(plain), dtype=np.int64), self.marks])
        return np.concatenate([plain, self.rows]), np.concatenate([left[plain], self.amounts]), marks


class Marks:
    """Numbers for a step's corrections. In their low half stands a part of the lowest hash of the step's rows, by which
    the numbers of different buckets differ; the same step always gives the same."""

    def __init__(self, lowest_hash: int) -> None:
        self._low, self._given = lowest_hash & _LOW, 0

    def next(self, count: int) -> Ints:
        first = self._given + 1
        self._given += count
        return (np.arange(first, first + count, dtype=np.int64) << 32) | self._low


def correct(
    one: tuple[Touched, Changes], weights: tuple[Ints, Ints], other: Touched, met: tuple[Pairs, Changes], marks: Marks
) -> None:
    """Marks the corrections between rows of one side that leave singly (with `weights` before and after) and pairs.

    The first match of a row takes its padding back: of several it is the one with the smallest row of the other side.
    Where a row has lost its last match and its padding comes, it is the same with the pairs that are taken back.
    """
    (rows, singly), (pairs, changes), (before, after) = one, met, weights
    gone = np.where((before > 0) & (after == 0), np.minimum(before, rows.weights), 0)
    come = np.where((before == 0) & (after > 0), np.minimum(after, rows.before), 0)
    own, others = pairs if rows.side.number == 0 else (pairs.right, pairs.left)
    amounts = (np.maximum(gone, 0) - np.maximum(come, 0))[own]
    amounts[changes.rows] = 0
    chosen = _smallest(np.flatnonzero(amounts * changes.weights > 0), (own, rows), (others, other))
    given = marks.next(len(chosen))
    singly.mark(own[chosen], -amounts[chosen], given)
    changes.mark(chosen, amounts[chosen], given)


def in_twos(rows: pl.DataFrame, mark: str) -> pl.DataFrame:
    """Output rows with marks only where both rows of a correction leave: where one is cancelled out by a row that is
    the same but for the mark, the other one corrects nothing."""
    if rows[mark].null_count() == rows.height:
        return rows
    columns = [name for name in rows.columns if name not in (mark, WEIGHT)]
    both = (pl.col(WEIGHT).min() < 0) & (pl.col(WEIGHT).max() > 0)
    lost = rows.filter(both.over(columns) if columns else both)[mark].drop_nulls()
    kept = pl.when(~pl.col(mark).is_in(lost.implode())).then(pl.col(mark))
    return rows.with_columns(kept.alias(mark)) if len(lost) else rows


def _smallest(pairs: Places, one: tuple[Places, Touched], other: tuple[Places, Touched]) -> Places:
    """Of the pairs of each row of one side that with the smallest row of the other, by time and then by columns; in the
    order of the rows themselves."""
    if not len(pairs):
        return pairs
    keys = [_sort_keys(rows, places[pairs], name) for name, (places, rows) in (("a", one), ("b", other))]
    found = pl.concat([pl.DataFrame({"pair": pairs, "row": one[0][pairs]}), *keys], how="horizontal")
    ordered = found.sort([name for frame in keys for name in frame.columns])
    chosen: Places = ordered.unique("row", keep="first", maintain_order=True)["pair"].to_numpy()
    return chosen


def _sort_keys(rows: Touched, places: Places, prefix: str) -> pl.DataFrame:
    names = [rows.side.time, *(name for name in rows.side.columns if name != rows.side.time)]
    return rows.frame[places].select(pl.col(name).alias(f"{prefix}{place}") for place, name in enumerate(names))
