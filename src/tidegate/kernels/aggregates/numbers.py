"""Functions of sums: COUNT, SUM, AVG, the moments, and what counts truths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.types import decimal_parts
from tidegate.kernels.aggregates.accumulators import (
    Accumulator,
    Count,
    CountEqual,
    Doubles,
    ExactSum,
    LimbSum,
    WideSums,
    decimals,
)
from tidegate.kernels.aggregates.exact import UNIT, ExactSums, Floats, Ints
from tidegate.kernels.aggregates.function import Sums

_SMALL = {"tinyint", "smallint", "int"}


class CountValues(Sums):
    """COUNT(*), and COUNT of rows in which every argument has a value."""

    def keeps(self) -> Sequence[Accumulator]:
        return [Count(self.call.args)]

    def result(self, count: Ints) -> pl.Series:
        return pl.Series(count)


class Total(Sums):
    """SUM: BIGINT wraps around, a decimal that does not fit is NULL, doubles are summed exactly."""

    def keeps(self) -> Sequence[Accumulator]:
        return [Count(self.call.args), total(self.call.args[0], self.call.arg_types[0], limbs=1)]

    def result(self, count: Ints, total: WideSums | ExactSums | Doubles) -> pl.Series:
        return with_nulls(self._plain(total), count == 0)

    def _plain(self, total: WideSums | ExactSums | Doubles) -> pl.Series:
        if isinstance(total, ExactSums | Doubles):
            return pl.Series(total.floats())
        parts = decimal_parts(self.call.type)
        return total.decimal(*parts) if parts else total.wrapped().cast(self.type)


class Average(Sums):
    """AVG: of decimals and intervals rounded half up, else a double."""

    def keeps(self) -> Sequence[Accumulator]:
        return [Count(self.call.args), total(self.call.args[0], self.call.arg_types[0], limbs=2)]

    def result(self, count: Ints, total: WideSums | ExactSums | Doubles) -> pl.Series:
        divisor = np.where(count == 0, 1, count)
        return with_nulls(self._plain(total, divisor), count == 0)

    def _plain(self, total: WideSums | ExactSums | Doubles, count: Ints) -> pl.Series:
        parts = decimal_parts(self.call.type)
        if parts and isinstance(total, WideSums):
            return decimals(_divided(total, count, self._shift(parts[1])), *parts)
        if self.type == pl.Duration and isinstance(total, WideSums):
            return pl.Series(_divided(total, count, 1), dtype=pl.Int64).cast(self.type)
        return pl.Series(total.floats() / count)

    def _shift(self, scale: int) -> int:
        argument = decimal_parts(self.call.arg_types[0])
        return int(10 ** (scale - (argument[1] if argument else 0)))


@dataclass(frozen=True)
class MomentKind:
    """Which moment: of a sample (n - 1) or of the population, and whether its root is taken."""

    sample: bool
    root: bool


class Variance(Sums):
    """VARIANCE and STDDEV, from exact sums of x and x squared."""

    kind = MomentKind(sample=True, root=False)

    def keeps(self) -> Sequence[Accumulator]:
        x = self.call.args[0]
        return [Count((x,)), ExactSum((x,), (x,)), ExactSum((x, x), (x,))]

    def result(self, count: Ints, sums: ExactSums, squares: ExactSums) -> pl.Series:
        least = 2 if self.kind.sample else 1
        values = co_moments(count, sums, sums, squares, self.kind.sample)
        return with_nulls(pl.Series(np.sqrt(values) if self.kind.root else values), count < least)


class VariancePop(Variance):
    kind = MomentKind(sample=False, root=False)


class Deviation(Variance):
    kind = MomentKind(sample=True, root=True)


class DeviationPop(Variance):
    kind = MomentKind(sample=False, root=True)


class Covariance(Sums):
    """COVAR_SAMP; over the rows in which both arguments have values."""

    sample = True

    def keeps(self) -> Sequence[Accumulator]:
        x, y = self.call.args
        return [Count((x, y)), ExactSum((x,), (x, y)), ExactSum((y,), (x, y)), ExactSum((x, y), (x, y))]

    def result(self, count: Ints, left: ExactSums, right: ExactSums, products: ExactSums) -> pl.Series:
        values = co_moments(count, left, right, products, self.sample)
        return with_nulls(pl.Series(values), count < (2 if self.sample else 1))


class CovariancePop(Covariance):
    sample = False


class Correlation(Sums):
    """CORR (Pearson); NULL where a side does not vary."""

    def keeps(self) -> Sequence[Accumulator]:
        x, y = self.call.args
        pairs = ((x,), (y,), (x, y), (x, x), (y, y))
        return [Count((x, y)), *(ExactSum(factors, (x, y)) for factors in pairs)]

    def result(self, count: Ints, x: ExactSums, y: ExactSums, xy: ExactSums, xx: ExactSums, yy: ExactSums) -> pl.Series:
        covariance = co_moments(count, x, y, xy, sample=False)
        left, right = co_moments(count, x, x, xx, sample=False), co_moments(count, y, y, yy, sample=False)
        divisor = np.sqrt(left) * np.sqrt(right)
        with np.errstate(divide="ignore", invalid="ignore"):
            return with_nulls(pl.Series(covariance / divisor), (count < 2) | (divisor == 0))


class CountIf(Sums):
    """COUNT_IF: rows in which the condition is true."""

    def keeps(self) -> Sequence[Accumulator]:
        return [CountEqual(self.call.args[0], True)]

    def result(self, truths: Ints) -> pl.Series:
        return pl.Series(truths)


class Every(Sums):
    """BOOL_AND: true unless some value is false; NULL without values."""

    decisive = False

    def keeps(self) -> Sequence[Accumulator]:
        return [Count(self.call.args), CountEqual(self.call.args[0], self.decisive)]

    def result(self, count: Ints, decisive: Ints) -> pl.Series:
        values = (decisive > 0) == self.decisive
        return with_nulls(pl.Series(values), count == 0)


class Some(Every):
    """BOOL_OR: false unless some value is true; NULL without values."""

    decisive = True


def total(column: str, type: str, limbs: int) -> Accumulator:
    """The accumulator for the sum of a column; `limbs` is how many a BIGINT needs."""
    if parts := decimal_parts(type):
        return LimbSum(column, 2 if parts[0] <= 18 else 4)
    if type in _SMALL:
        return LimbSum(column, 1)
    if type == "bigint" or type.startswith("interval"):
        return LimbSum(column, limbs)
    return ExactSum((column,), (column,))


def co_moments(count: Ints, left: ExactSums, right: ExactSums, products: ExactSums, sample: bool) -> Floats:
    """(sum of products - sum * sum / n) / (n or n - 1), exactly, then rounded once; NaN where a value is no number."""
    sums = zip(count.tolist(), left.integers(), right.integers(), products.integers(), strict=True)
    exact = [_co_moment(n, x, y, xy, left is right, sample) for n, x, y, xy in sums]
    finite = left.finite() & right.finite() & products.finite()
    return np.where(finite, np.array(exact, dtype=np.float64), np.nan)


def _co_moment(n: int, x: int, y: int, xy: int, square: bool, sample: bool) -> float:
    divisor = n - 1 if sample else n
    if divisor <= 0:
        return np.nan
    numerator = n * (xy << -UNIT) - x * y
    if square:
        numerator = max(numerator, 0)
    try:
        return numerator / ((n * divisor) << (-2 * UNIT))
    except OverflowError:  # As a DOUBLE it is infinite.
        return np.inf if numerator > 0 else -np.inf


def _divided(total: WideSums, count: Ints, factor: int) -> list[int]:
    """Each sum times `factor` divided by its count, rounded half up (away from zero)."""
    pairs = zip(total.integers(), count.tolist(), strict=True)
    return [(abs(s) * factor * 2 + n) // (2 * n) * (1 if s >= 0 else -1) for s, n in pairs]


def with_nulls(values: pl.Series, nulls: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> pl.Series:
    return values.set(pl.Series(nulls), None) if nulls.any() else values
