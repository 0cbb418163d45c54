"""Exact sums: doubles, decimals and whole numbers beyond 64 bits."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.kernels.aggregates.accumulators import ExactSum, WideSums, decimals, limbs_of
from tidegate.kernels.aggregates.exact import ExactSums, split

finite = st.floats(allow_nan=False, allow_infinity=False)
weighted = st.lists(st.tuples(st.integers(0, 3), finite, st.sampled_from([1, 1, -1, 5])), max_size=30)


def sums(rows: list[tuple[int, float, int]], groups: int = 4) -> ExactSums:
    group = np.array([row[0] for row in rows], dtype=np.int64)
    values = np.array([row[1] for row in rows], dtype=np.float64)
    index, *limbs = split(values, np.array([row[2] for row in rows], dtype=np.int64))
    return ExactSums.sum(
        groups, np.tile(group, 3), np.concatenate([index, index + 1, index + 2]), np.concatenate(limbs)
    )


def rounded(total: Fraction) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@settings(deadline=None)
@given(weighted)
def test_sums_are_rounded_once(rows: list[tuple[int, float, int]]) -> None:
    expected = [sum((Fraction(x) * w for g, x, w in rows if g == group), Fraction()) for group in range(4)]
    stored = ExactSums.read(*sums(rows).columns())
    assert stored.floats().tolist() == [rounded(total) for total in expected]


@settings(deadline=None)
@given(weighted, st.randoms())
def test_retracted_values_leave_no_residue(rows: list[tuple[int, float, int]], random: object) -> None:
    both = rows + [(group, value, -weight) for group, value, weight in rows]
    random.shuffle(both)  # type: ignore[attr-defined]
    assert sums(both).index.size == 0


def test_nan_and_infinity_are_counted_separately() -> None:
    nan, inf = math.nan, math.inf
    assert sums([(0, inf, 1), (0, 1.0, 1)], 1).floats().tolist() == [inf]
    assert math.isnan(sums([(0, inf, 1), (0, -inf, 1)], 1).floats()[0])
    assert math.isnan(sums([(0, nan, 1), (0, -inf, 1)], 1).floats()[0])
    assert sums([(0, x, w) for x in (nan, inf, -inf) for w in (1, -1)] + [(0, 0.5, 1)], 1).floats().tolist() == [0.5]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100)).filter(lambda p: all(abs(x) > 1e-100 for x in p)),
        min_size=1,
    )
)
def test_products_are_split_without_loss(pairs: list[tuple[float, float]]) -> None:
    frame = pl.DataFrame(pairs, schema=["x", "y"], orient="row")
    pieces = ExactSum(("x", "y"), ("x", "y")).pieces(frame)
    for (x, y), *parts in zip(pairs, *(piece.tolist() for piece in pieces), strict=True):
        assert sum(map(Fraction, parts)) == Fraction(x) * Fraction(y)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1))
def test_decimals_are_summed_in_limbs(values: list[int]) -> None:
    column = decimals(values, 38, 2)
    assert column.to_list() == [Decimal((int(v < 0), tuple(map(int, str(abs(v)))), -2)) for v in values]
    assert WideSums(limbs_of(column, 4)).integers() == values
    assert WideSums(limbs_of(column, 4)).decimal(38, 2).to_list() == column.to_list()


def test_a_sum_that_does_not_fit_its_decimal_is_null() -> None:
    limbs = limbs_of(decimals([10**38 - 1, 5], 38, 0), 4)
    assert WideSums([limb * 2 for limb in limbs]).decimal(38, 0).to_list() == [None, Decimal(10)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_wrap_around(values: list[int]) -> None:
    total = [np.array([limb.sum()]) for limb in limbs_of(pl.Series(values, dtype=pl.Int64), 2)]
    assert WideSums(total).integers() == [sum(values)]
    assert WideSums(total).wrapped().to_list() == [(sum(values) + 2**63) % 2**64 - 2**63]
