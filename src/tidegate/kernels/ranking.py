"""Indexes of weighted rows in their partition: ROW_NUMBER, RANK, DENSE_RANK, and which rows are in the top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.ir.specs import TopNSpec
from tidegate.kernels.frames import nonempty
from tidegate.kernels.state.sorting import Mask, spread

Ints = npt.NDArray[np.int64]


def sort_rows(rows: pl.DataFrame, partition: str, spec: TopNSpec) -> pl.DataFrame:
    """Rows sorted by partition, the ORDER BY, and then all columns ascending with NULLs first."""
    named = {order.column for order in spec.order}
    ties = [name for name in spec.columns if name not in named]
    down = [False, *(order.descending for order in spec.order), *[False] * len(ties)]
    last = [False, *(not order.nulls_first for order in spec.order), *[False] * len(ties)]
    return rows.sort([partition, *(order.column for order in spec.order), *ties], descending=down, nulls_last=last)


class Ranking:
    """Rows in order with their partitions; `same`: which rows tie with the previous one."""

    def __init__(self, rows: pl.DataFrame, partition: str, spec: TopNSpec) -> None:
        self._spec = spec
        numbers = rows[partition].to_numpy()
        self._starts: Mask = np.ones(rows.height, dtype=np.bool_)
        self._starts[1:] = numbers[1:] != numbers[:-1]
        self._head = np.maximum.accumulate(np.where(self._starts, np.arange(rows.height), 0))
        self._fresh = self._starts | ~_same_as_before(rows, [order.column for order in spec.order])

    def before(self, weights: Ints) -> Ints:
        """How many rows of the partition come before each row."""
        total = np.cumsum(weights) - weights
        result: Ints = total - total[self._head]
        return result

    def ranks(self, weights: Ints) -> Ints:
        """The rank of each row (of its first copy), counted from 1, among rows with positive weight."""
        match self._spec.function:
            case "rank":
                return self.before(weights)[self._first_of_ties()] + 1
            case "dense_rank":
                return self._dense(weights)
        return self.before(weights) + 1

    def top(self, weights: Ints) -> tuple[Ints, Ints]:
        """For each row its first rank in the top, and the number of its copies in the top."""
        low, high = self._spec.offset, self._spec.offset + self._spec.limit
        ranks = self.ranks(weights)
        if self._spec.function != "row_number":
            inside = (ranks > low) & (ranks <= high)
            return ranks, np.where(inside, weights, 0)
        first = np.maximum(ranks, low + 1)
        return first, np.clip(np.minimum(ranks + weights, high + 1) - first, 0, None)

    def _first_of_ties(self) -> npt.NDArray[np.intp]:
        return np.maximum.accumulate(np.where(self._fresh, np.arange(len(self._fresh)), 0))

    def _dense(self, weights: Ints) -> Ints:
        """Ties count once, and only if one of their rows is present."""
        tie = np.cumsum(self._fresh) - 1
        present = np.zeros(int(tie[-1]) + 1 if len(tie) else 0, dtype=np.int64)
        np.maximum.at(present, tie, (weights > 0).astype(np.int64))
        up_to = np.cumsum(present)[tie]
        before = (np.cumsum(present) - present)[tie[self._head]]
        result: Ints = up_to - before
        return result


def _same_as_before(rows: pl.DataFrame, columns: Sequence[str]) -> Mask:
    same = np.ones(rows.height, dtype=np.bool_)
    for name in columns:
        same &= rows[name].eq_missing(rows[name].shift(1)).to_numpy()
    return same


def difference(rows: pl.DataFrame, ranking: Ranking, old: Ints, new: Ints, spec: TopNSpec) -> pl.DataFrame | None:
    """How the top changes when the rows' weights go from `old` to `new`: weighted rows, retractions first."""
    sides = [(-1, *ranking.top(np.maximum(old, 0))), (1, *ranking.top(np.maximum(new, 0)))]
    if spec.rank is None:
        out = rows.select(spec.columns).with_columns(pl.Series(WEIGHT, sides[1][2] - sides[0][2], dtype=pl.Int64))
        return nonempty(out.filter(pl.col(WEIGHT) != 0).sort(WEIGHT))
    apart = spec.function == "row_number"
    ranked = pl.concat([_ranked_rows(sign, first, count, apart) for sign, first, count in sides])
    changed = ranked.group_by("row", "rank").agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0).sort(WEIGHT)
    out = rows[changed["row"].to_numpy()].select(spec.columns)
    return nonempty(out.with_columns(changed["rank"].cast(pl.Int32).alias(spec.rank), changed[WEIGHT]))


def _ranked_rows(sign: int, first: Ints, count: Ints, apart: bool) -> pl.DataFrame:
    """The rows of the top with their ranks; each copy of a row has its own rank if `apart`."""
    rows = np.flatnonzero(count > 0)
    if apart:
        number, rank = np.repeat(rows, count[rows]), spread(first[rows], count[rows])
        weight = np.full(len(number), sign, dtype=np.int64)
    else:
        number, rank, weight = rows, first[rows], sign * count[rows]
    return pl.DataFrame({"row": number, "rank": rank, WEIGHT: weight})
