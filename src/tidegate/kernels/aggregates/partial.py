"""Partial aggregation: rows, or partial results of them, become sums per group and the net of its values.

All of it travels in one frame. `__k` tells the rows apart: 0 are sums, j + 1 are entries of the bag number j. Exact
sums of doubles travel as limbs: there is a row for each group and first limb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.kernels.aggregates import dense
from tidegate.kernels.aggregates.accumulators import ExactSum
from tidegate.kernels.aggregates.exact import LIMBS, ExactSums, split
from tidegate.kernels.aggregates.function import POSITION, STEP
from tidegate.kernels.aggregates.plan import Plan, Values
from tidegate.kernels.frames import consolidate, find_rows, normalise

_SIMPLE = (pl.Boolean, pl.String, pl.Decimal)


def counting(values: Values, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that have a part in a bag."""
    conditions = [pl.col(name).is_not_null() for name in values.required]
    if values.filter is not None:
        conditions.append(pl.col(values.filter))
    return rows.filter(*conditions) if conditions else rows


def net(values: Values, keys: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    """Each value with its net weight, or the best one only where that is enough."""
    columns = list(dict.fromkeys([*keys, *values.args, *([SEQ] if values.arrival else [])]))
    if values.hash is not None:
        return consolidate(rows.select(*columns, WEIGHT, values.hash), columns, [values.hash])
    return _best(values, keys, rows.select(*columns, WEIGHT))


def _best(values: Values, keys: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    column, descending = values.order[0]
    if len(values.order) == 1 and column not in keys and _is_simple(rows.schema[column]):
        best = pl.col(column).min() if not descending else _largest(column, rows.schema[column])
        return rows.group_by(keys).agg(best, pl.col(WEIGHT).sum())
    order = [(SEQ if name == POSITION else name, down) for name, down in values.order if name != STEP]
    down = [descending for _, descending in order]
    ordered = rows.sort([name for name, _ in order], descending=down, nulls_last=down)
    return ordered.unique(subset=keys, keep="first", maintain_order=True)


def _is_simple(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype.is_temporal() or dtype in _SIMPLE


def _largest(column: str, dtype: pl.DataType) -> pl.Expr:
    """The greatest value; NaN is above every number."""
    return pl.col(column).nan_max() if dtype.is_float() else pl.col(column).max()


KIND = "__k"


@dataclass(frozen=True)
class Parts:
    """The input of a step: groups with their sums, exact sums by number of their slot, the entries of each bag."""

    groups: pl.DataFrame
    reals: dict[int, ExactSums]
    entries: list[pl.DataFrame]


class Partial:
    """The partial aggregation of one GROUP BY."""

    def __init__(self, plan: Plan, least: str | None = None, units: Mapping[str, int] | None = None) -> None:
        """`least` names a further column of which the smallest value is taken; `units` is the smallest distance of the
        values of keys that are times."""
        self._plan, self._least, self._units = plan, [] if least is None else [least], units or {}
        self._keys = [HASH, *plan.spec.keys]
        self._plain = [number for number, slot in enumerate(plan.slots) if slot.values is None]
        reals = {number: plan.slots[number].accumulator for number in self._plain}
        self._reals = {number: real for number, real in reals.items() if isinstance(real, ExactSum)}
        self._first_limbs = [
            _first_limb(number, part) for number, real in self._reals.items() for part in range(real.parts)
        ]

    @property
    def hashes_after_combine(self) -> bool:
        """True if the hash can be computed after rows were combined; values in bags need it before."""
        return not self._plan.values and bool(self._plan.spec.keys)

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Any rows of the port, in the form that travels."""
        kinds = [
            frame.with_columns(pl.lit(kind, pl.Int16).alias(KIND)) for kind, frame in enumerate(self._frames(rows))
        ]
        return pl.concat(kinds, how="diagonal")

    def parts(self, rows: pl.DataFrame) -> Parts:
        """The contribution of rows, or of rows combined before, to each group. Groups are in order of their hash, in
        which they are stored."""
        sums, *entries = self._ordered(rows) if KIND in rows.columns else self._fresh(rows)
        sums = sums.sort(HASH)
        if not self._first_limbs:
            return Parts(sums, {}, entries)
        plain = [WEIGHT, *(name for number in self._plain for name in self._whole_columns(number))]
        groups = sums.group_by(self._keys, maintain_order=True).agg(pl.col(plain).sum())
        group = find_rows(sums, groups, self._plan.spec.keys)
        return Parts(
            groups, {number: self._real(number, sums, group, groups.height) for number in self._reals}, entries
        )

    def _ordered(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """As `_again`, unless each group occurs once and nothing has to be added up: that is seen from the sorted rows,
        and they are sorted anyway."""
        if self._plan.values:
            return self._again(rows)
        ordered = rows.sort(HASH, maintain_order=True)
        return [ordered.drop(KIND)] if self._singles(ordered) else self._again(ordered)

    def _singles(self, ordered: pl.DataFrame) -> bool:
        """True if no two rows have the same group (and first limb). Only rows with equal hashes are compared."""
        hashes = ordered[HASH].to_numpy()
        again = np.flatnonzero(hashes[1:] == hashes[:-1])
        candidates = ordered[np.union1d(again, again + 1)].select(*self._keys, *self._first_limbs)
        return candidates.is_empty() or not candidates.is_duplicated().any()

    def _frames(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Sums and the entries of each bag."""
        return self._again(rows) if KIND in rows.columns else self._fresh(rows)

    def _fresh(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        if self._plan.spec.scalar:
            rows = rows.with_columns(pl.lit(0, pl.Int64).alias(HASH))
        args = [name for values in self._plan.values for name in values.args]
        rows = normalise(rows, [*self._plan.spec.keys, *args])
        least = [rows[name] for name in self._least]
        keys = [name for name in self._keys if name in rows.columns]
        sums = self._summed(rows.select(keys).with_columns(rows[WEIGHT], *least, *self._terms(rows)))
        return [sums, *(net(values, self._keys, counting(values, rows)) for values in self._plan.values)]

    def _again(self, rows: pl.DataFrame) -> list[pl.DataFrame]:
        sums, *bags = (rows.filter(pl.col(KIND) == kind) for kind in range(len(self._plan.values) + 1))
        columns = [WEIGHT, *self._least, *(name for number in self._plain for name in self._columns(number))]
        entries = [net(values, self._keys, bag) for values, bag in zip(self._plan.values, bags, strict=True)]
        return [self._summed(sums.select(*self._keys, *columns)), *entries]

    def _summed(self, terms: pl.DataFrame) -> pl.DataFrame:
        """Equal keys have equal hashes: grouping by the keys alone is twice as fast."""
        by = [*(self._plan.spec.keys or [HASH]), *self._first_limbs]
        hash_column = None if HASH in by or HASH not in terms.columns else HASH
        dense_sums = None if self._least or HASH in by else dense.sum_groups(terms, by, self._units, hash_column)
        if dense_sums is not None:
            return dense_sums
        hashes = [] if hash_column is None else [pl.col(HASH).first()]
        summed = pl.exclude([HASH, *by, *self._least]).sum()
        return terms.group_by(by).agg(*hashes, summed, pl.col(self._least).min())

    def _columns(self, number: int) -> list[str]:
        if number not in self._reals:
            return self._whole_columns(number)
        parts = range(self._reals[number].parts)
        return [name for part in parts for name in (_first_limb(number, part), *_limbs(number, part))]

    def _whole_columns(self, number: int) -> list[str]:
        return [] if number in self._reals else list(self._plan.slot_types(number))

    def _terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The contribution of each row to each sum."""
        terms: list[pl.Series] = []
        single = bool((rows[WEIGHT] == 1).all())
        for number in self._plain:
            slot = self._plan.slots[number]
            weights = _passing(rows, slot.filter)
            if isinstance(slot.accumulator, ExactSum):
                terms += _pieces(number, slot.accumulator, rows, weights)
                continue
            as_is = single and slot.filter is None
            pairs = zip(self._whole_columns(number), slot.accumulator.terms(rows), strict=True)
            terms += [(term if as_is else term * weights).alias(name) for name, term in pairs]
        return terms

    def _real(self, number: int, sums: pl.DataFrame, group: np.ndarray, groups: int) -> ExactSums:
        """Limbs that lie in columns, as exact sums."""
        parts = range(self._reals[number].parts)
        index = [sums[_first_limb(number, part)].to_numpy() + limb for part in parts for limb in range(LIMBS)]
        value = [sums[name].to_numpy() for part in parts for name in _limbs(number, part)]
        return ExactSums.sum(groups, np.tile(group, len(index)), np.concatenate(index), np.concatenate(value))


def _first_limb(number: int, part: int) -> str:
    return f"__b{number}_{part}"


def _limbs(number: int, part: int) -> list[str]:
    return [f"__l{number}_{part}_{limb}" for limb in range(LIMBS)]


def _passing(rows: pl.DataFrame, filter: str | None) -> pl.Series:
    """The rows' weights, 0 for those that do not pass."""
    return rows[WEIGHT] if filter is None else rows[WEIGHT] * rows[filter].fill_null(False).cast(pl.Int64)


def _pieces(number: int, real: ExactSum, rows: pl.DataFrame, weights: pl.Series) -> list[pl.Series]:
    """For each double that a row contributes the index of its lowest limb and its limbs."""
    counted = (weights * real.counts(rows).cast(pl.Int64)).to_numpy()
    columns: list[pl.Series] = []
    for part, values in enumerate(real.pieces(rows)):
        names = [_first_limb(number, part), *_limbs(number, part)]
        columns += [pl.Series(name, column) for name, column in zip(names, split(values, counted), strict=True)]
    return columns
