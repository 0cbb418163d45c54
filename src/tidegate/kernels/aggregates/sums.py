"""Sums of groups after a step: what they were plus what the step brings."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.kernels.aggregates.accumulators import Count, Double, Limbs, Real, Truths
from tidegate.kernels.aggregates.exact import LIMBS, Ints, Reals, split
from tidegate.kernels.aggregates.function import GROUP


def whole_sums(
    name: str,
    accumulator: Count | Truths | Limbs | Double,
    old: pl.DataFrame,
    groups: pl.DataFrame,
    toggled: pl.DataFrame | None,
) -> list[pl.Series]:
    """The columns of an accumulator of plain numbers. `toggled`: distinct values that come or go; else `groups` has
    sums."""
    names = [f"{name}_{part}" for part in range(accumulator.width)]
    if toggled is None:
        return [(old[column] + groups[column]).alias(column) for column in names]
    terms = accumulator.terms(toggled)
    return [
        (old[column] + _by_group(term, toggled, old.height)).alias(column)
        for column, term in zip(names, terms, strict=True)
    ]


def exact_sums(
    name: str, real: Real, old: pl.DataFrame, brought: Reals | None, toggled: pl.DataFrame | None
) -> list[pl.Series]:
    """The two list columns of an exact sum: with what is `brought`, or what the distinct values that toggle bring."""
    index, value = f"{name}_i", f"{name}_v"
    before = Reals.read(old[index], old[value])
    changes = [change for change in (brought, None if toggled is None else _exact(real, toggled, old.height)) if change]
    limbs = [np.concatenate(arrays) for arrays in zip(*map(_arrays, [before, *changes]), strict=True)]
    indices, values = Reals.summed(old.height, *limbs).columns()
    return [indices.alias(index), values.alias(value)]


def _by_group(term: pl.Series, rows: pl.DataFrame, groups: int) -> pl.Series:
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, rows[GROUP].to_numpy(), (term * rows[WEIGHT]).to_numpy())
    return pl.Series(total)


def _exact(real: Real, rows: pl.DataFrame, groups: int) -> Reals:
    weights = (rows[WEIGHT] * real.counts(rows).cast(pl.Int64)).to_numpy()
    parts = [split(piece, weights) for piece in real.pieces(rows)]
    group = np.tile(rows[GROUP].to_numpy(), LIMBS * len(parts))
    index = np.concatenate([lowest + limb for lowest, *_ in parts for limb in range(LIMBS)])
    return Reals.summed(groups, group, index, np.concatenate([limb for _, *limbs in parts for limb in limbs]))


def _arrays(sums: Reals) -> tuple[Ints, Ints, Ints]:
    return sums.group, sums.index, sums.value
