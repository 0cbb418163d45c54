"""Partial aggregation: rows, or partial results of them, become one row of sums per group and the net of its values.

All of it travels in one frame. `__k` tells the rows apart: 0 are sums, j + 1 are entries of the bag number j.
"""

from __future__ import annotations

import polars as pl

from tidegate.kernels.aggregates.accumulators import Real
from tidegate.kernels.aggregates.exact import LIMBS, split
from tidegate.kernels.aggregates.function import PLACE, STEP
from tidegate.kernels.aggregates.plan import Plan, Values
from tidegate.kernels.api import HASH, SEQ, WEIGHT
from tidegate.kernels.frames import consolidated, normalised

KIND = "__k"
_FAST = (pl.Boolean, pl.String, pl.Decimal)


class Partial:
    """The partial aggregation of one GROUP BY."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys = [HASH, *plan.spec.keys]
        self._plain = [number for number, slot in enumerate(plan.slots) if slot.values is None]

    def combined(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Any rows of the port, in the form that travels."""
        groups, entries = self.parts(rows)
        kinds = [
            frame.with_columns(pl.lit(kind, pl.Int16).alias(KIND)) for kind, frame in enumerate([groups, *entries])
        ]
        return pl.concat(kinds, how="diagonal")

    def parts(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """The sums of each group and the entries of each bag, from rows or from what was combined before."""
        return self._again(rows) if KIND in rows.columns else self._fresh(rows)

    def _fresh(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        if self._plan.spec.scalar:
            rows = rows.with_columns(pl.lit(0, pl.Int64).alias(HASH))
        args = [name for values in self._plan.values for name in values.args]
        rows = normalised(rows, [*self._plan.spec.keys, *args])
        return self._sums(rows), [self._net(values, _counting(values, rows)) for values in self._plan.values]

    def _again(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        kinds = [rows.filter(pl.col(KIND) == kind) for kind in range(len(self._plan.values) + 1)]
        entries = [self._net(*pair) for pair in zip(self._plan.values, kinds[1:], strict=True)]
        return self._merged(kinds[0].select(*self._keys, *self._sum_columns())), entries

    def _sum_columns(self) -> list[str]:
        return [WEIGHT, *(name for number in self._plain for name in self._plan.slot_types(number))]

    def _merged(self, sums: pl.DataFrame) -> pl.DataFrame:
        lists = [name for name in self._sum_columns() if isinstance(sums.schema[name], pl.List)]
        plain = [name for name in self._sum_columns() if name not in lists]
        return sums.group_by(self._keys).agg(pl.col(plain).sum(), pl.col(lists).explode())

    def _sums(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sums per group. Exact sums are first summed per group and place of the lowest limb, then made into lists."""
        terms, places = self._terms(rows)
        wide = rows.select(self._keys).with_columns(rows[WEIGHT], *terms)
        first = wide.group_by([*self._keys, *places]).agg(pl.exclude(*self._keys, *places).sum())
        if not places:
            return first
        return self._merged(first.with_columns(self._lists()).select(*self._keys, *self._sum_columns()))

    def _terms(self, rows: pl.DataFrame) -> tuple[list[pl.Series], list[str]]:
        """What each row contributes to each sum; and the columns that say where limbs begin."""
        terms: list[pl.Series] = []
        places: list[str] = []
        for number in self._plain:
            slot = self._plan.slots[number]
            weights = _passing(rows, slot.filter)
            if isinstance(slot.accumulator, Real):
                pieces = _pieces(number, slot.accumulator, rows, weights)
                places += [series.name for series in pieces[:: LIMBS + 1]]
                terms += pieces
            else:
                each = enumerate(slot.accumulator.terms(rows))
                terms += [(term * weights).alias(f"s{number}_{part}") for part, term in each]
        return terms, places

    def _lists(self) -> list[pl.Expr]:
        """Limbs that lie in columns, as lists of indices and of values."""
        lists = []
        for number in self._plain:
            accumulator = self._plan.slots[number].accumulator
            if isinstance(accumulator, Real):
                parts = range(len(accumulator.factors))
                index = [pl.col(f"b{number}_{part}") + limb for part in parts for limb in range(LIMBS)]
                value = [pl.col(f"l{number}_{part}_{limb}") for part in parts for limb in range(LIMBS)]
                lists += [pl.concat_list(index).alias(f"s{number}_i"), pl.concat_list(value).alias(f"s{number}_v")]
        return lists

    def _net(self, values: Values, rows: pl.DataFrame) -> pl.DataFrame:
        """The entries of a bag: each value with its net weight, or the best one only where that is enough."""
        columns = list(dict.fromkeys([*self._keys, *values.args, *([SEQ] if values.arrival else [])]))
        if values.stored:
            hash = values.hash
            assert hash is not None
            return consolidated(rows.select(*columns, WEIGHT, hash), columns, [hash])
        return self._best(values, rows.select(*columns, WEIGHT))

    def _best(self, values: Values, rows: pl.DataFrame) -> pl.DataFrame:
        column, descending = values.order[0]
        dtype = rows.schema[column] if len(values.order) == 1 else None
        if (
            dtype is not None
            and column not in self._keys
            and (dtype.is_numeric() or dtype.is_temporal() or dtype in _FAST)
        ):
            best = _largest(column, dtype) if descending else pl.col(column).min()
            return rows.group_by(self._keys).agg(best, pl.col(WEIGHT).sum())
        order = [(SEQ if name == PLACE else name, down) for name, down in values.order if name != STEP]
        ordered = rows.sort([name for name, _ in order], descending=(down := [d for _, d in order]), nulls_last=down)
        return ordered.unique(subset=self._keys, keep="first", maintain_order=True)


def _counting(values: Values, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that have a part in a bag."""
    conditions = [pl.col(name).is_not_null() for name in values.required]
    if values.filter is not None:
        conditions.append(pl.col(values.filter))
    return rows.filter(*conditions) if conditions else rows


def _passing(rows: pl.DataFrame, filter: str | None) -> pl.Series:
    """The rows' weights, 0 for those that do not pass."""
    return rows[WEIGHT] if filter is None else rows[WEIGHT] * rows[filter].fill_null(False).cast(pl.Int64)


def _pieces(number: int, real: Real, rows: pl.DataFrame, weights: pl.Series) -> list[pl.Series]:
    """For each double that a row contributes the index of its lowest limb and its limbs."""
    counted = (weights * real.counts(rows).cast(pl.Int64)).to_numpy()
    columns: list[pl.Series] = []
    for part, values in enumerate(real.pieces(rows)):
        index, *limbs = split(values, counted)
        columns.append(pl.Series(f"b{number}_{part}", index))
        columns += [pl.Series(f"l{number}_{part}_{place}", limb) for place, limb in enumerate(limbs)]
    return columns


def _largest(column: str, dtype: pl.DataType) -> pl.Expr:
    return pl.col(column).nan_max() if dtype.is_float() else pl.col(column).max()
