"""Functions of single values: extremes, first and last; and functions of all values of a group: lists and sets,
percentiles, MODE, LISTAGG, bitwise and higher moments."""

from __future__ import annotations

import functools
import operator

import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.kernels.aggregates.function import GROUP, POSITION, STEP, Bag, Best, Ordering, per_group, spread_out


class Minimum(Best):
    """MIN: strings by bytes, NaN above every number."""

    def order(self) -> Ordering:
        return ((self.call.args[0], False),)


class Maximum(Best):
    """MAX: strings by bytes, NaN above every number."""

    def order(self) -> Ordering:
        return ((self.call.args[0], True),)


class MinimumBy(Best):
    """MIN_BY(x, y): the x of the row with the least y; of several the least x, NULL before others."""

    descending = False

    @property
    def required(self) -> tuple[str, ...]:
        return self.call.args[1:]

    def order(self) -> Ordering:
        value, by = self.call.args
        return ((by, self.descending), (value, False))


class MaximumBy(MinimumBy):
    """MAX_BY(x, y): the x of the row with the greatest y; of several the least x, NULL before others."""

    descending = True


class First(Best):
    """FIRST: the earliest of the present values. A value counts from the step since which it has been present without a
    break."""

    arrival = True
    descending = False

    @property
    def required(self) -> tuple[str, ...]:
        return self.call.args if self.options.get("ignore_nulls", "false").lower() == "true" else ()

    def order(self) -> Ordering:
        return tuple((column, self.descending) for column in (STEP, POSITION, self.call.args[0]))


class Last(First):
    """LAST: the latest of the present values, by their last arrival."""

    descending = True


class CollectList(Bag):
    """ARRAY_AGG: the values in order, without NULLs; an empty array if there are none."""

    unique = False

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        rows = spread_out(entries, self.unique or self.call.distinct)
        lists = per_group(rows, groups, pl.col(self.call.args[0]))
        empty = pl.Series([[]], dtype=self.type)
        return lists.cast(self.type).fill_null(empty)


class CollectSet(CollectList):
    """COLLECT_SET: each value once, in order."""

    unique = True


class Percentile(Bag):
    """PERCENTILE(x, p) and MEDIAN: interpolated between the two values next to the percentile."""

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        rows = spread_out(entries, self.call.distinct)
        at = float(self.options.get("percentage", "0.5"))
        value = pl.col(self.call.args[0]).cast(pl.Float64)
        below, above = value.quantile(at, "lower"), value.quantile(at, "higher")
        position = (value.count() - 1) * at
        # Each value by its share, as Spark does: the difference of two infinities would be NaN.
        between = (position.ceil() - position) * below + (position - position.floor()) * above
        return per_group(rows, groups, pl.when(below == above).then(below).otherwise(between))


class Mode(Bag):
    """MODE: the most frequent value; of several the least."""

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        weight = pl.lit(1) if self.call.distinct else pl.col(WEIGHT)
        most = entries.filter(weight == weight.max().over(GROUP))
        return per_group(most, groups, pl.col(self.call.args[0]).first())


class ListAgg(Bag):
    """LISTAGG = STRING_AGG: the values in order with a delimiter between them."""

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        rows = spread_out(entries, self.call.distinct)
        return per_group(rows, groups, pl.col(self.call.args[0]).str.join(self.options.get("delimiter", "")))


class BitAnd(Bag):
    """BIT_AND, BIT_OR, BIT_XOR."""

    counted = False
    """True if the count of a value matters."""

    @staticmethod
    def apply(left: int, right: int) -> int:
        return left & right

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        odd = pl.col(WEIGHT) % 2 == 1 if self.counted and not self.call.distinct else pl.lit(True)
        results: list[int | None] = [None] * groups
        for group, value, counts in entries.select(GROUP, self.call.args[0], odd.alias("__odd")).iter_rows():
            results[group] = self._with(results[group], value if counts else 0)
        return pl.Series(results, dtype=self.type)

    def _with(self, sofar: int | None, value: int) -> int:
        return value if sofar is None else self.apply(sofar, value)


class BitOr(BitAnd):
    @staticmethod
    def apply(left: int, right: int) -> int:
        return left | right


class BitXor(BitAnd):
    counted = True

    @staticmethod
    def apply(left: int, right: int) -> int:
        return left ^ right


class Product(Bag):
    """PRODUCT, multiplied in the order of the values so that it is always the same double."""

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        rows = spread_out(entries, self.call.distinct)
        return per_group(rows, groups, pl.col(self.call.args[0]).cast(pl.Float64).product())


class Skewness(Bag):
    """SKEWNESS of the population; NULL where nothing varies."""

    def result(self, entries: pl.DataFrame, groups: int) -> pl.Series:
        rows = spread_out(entries, self.call.distinct)
        varies = self._central(2) != 0
        return per_group(rows, groups, pl.when(varies).then(self._ratio()))

    def _ratio(self) -> pl.Expr:
        second, third = (self._central(power) for power in (2, 3))
        return third * pl.len().sqrt() / (second * second * second).sqrt()

    def _central(self, power: int) -> pl.Expr:
        value = pl.col(self.call.args[0]).cast(pl.Float64)
        away = value - value.mean()
        return functools.reduce(operator.mul, [away] * power).sum()


class Kurtosis(Skewness):
    """KURTOSIS of the population, less 3; NULL where nothing varies."""

    def _ratio(self) -> pl.Expr:
        second, fourth = (self._central(power) for power in (2, 4))
        return fourth * pl.len() / (second * second) - 3.0
