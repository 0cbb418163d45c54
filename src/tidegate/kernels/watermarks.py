"""Comparisons of rows with watermarks, and the order in which state is kept so that rows below a watermark lie together
and can be evicted cheaply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np
import polars as pl

from tidegate.core.columns import HASH
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue

Watermarks = Mapping[str, WatermarkValue]

HIGHEST = (1 << 63) - 1
"""The order key of NULL, which is below no watermark."""

DAY = 86_400_000_000
_DIGITS = 38
_FAR = float(1 << 61)
_SPREAD = 26


def watermarks_for(clock: Clock, delayed: bool) -> Watermarks:
    """The watermarks to compare rows with: those of the step, or of the previous one if rows arrive `delayed`."""
    return clock.previous_watermarks if delayed else clock.watermarks


def passes(test: WatermarkTest, rows: pl.DataFrame, watermarks: Watermarks) -> pl.Series:
    """A mask of the rows that pass a test; NULL does not."""
    column, watermark = rows[test.column], watermarks.get(test.watermark)
    if watermark is None or column.dtype == pl.Null:
        return pl.repeat(False, len(column), dtype=pl.Boolean, eager=True)
    if watermark == INFINITE:
        return column.is_not_null()
    below = (
        _at_decimal(column, Decimal(str(watermark)), test)
        if column.dtype == pl.Decimal
        else _at(column, watermark, test)
    )
    return below.fill_null(False)


def all_pass(tests: Iterable[WatermarkTest], rows: pl.DataFrame, watermarks: Watermarks) -> pl.Series:
    """A mask of the rows that pass every test."""
    passing = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
    for test in tests:
        passing = passing & passes(test, rows, watermarks)
    return passing


def order_key(column: pl.Series) -> pl.Series:
    """A whole number for each value, monotone in the value; NULL is highest of all."""
    if column.dtype == pl.Null:
        return pl.repeat(HIGHEST, len(column), dtype=pl.Int64, eager=True)
    if column.dtype.is_float():
        key = pl.Series(_float_keys(column.cast(pl.Float64).fill_null(0.0).to_numpy()))
    elif column.dtype == pl.Decimal:
        key = column.cast(pl.Float64).fill_null(0.0).floor().clip(-_FAR, _FAR).cast(pl.Int64)
    else:
        key = column.to_physical().cast(pl.Int64).fill_null(0).clip(upper_bound=HIGHEST - 2)
    return key.set(column.is_null(), HIGHEST)


def watermark_key(watermark: WatermarkValue, dtype: pl.DataType) -> int | None:
    """An upper bound (exclusive) of the `order_key` of all values at or below a watermark; None if it has no value."""
    if watermark is None:
        return None
    if watermark == INFINITE:
        return HIGHEST
    if dtype == pl.Decimal:
        # A decimal becomes a double in more than one way: some room for the difference in the last place.
        return math.floor(min(max(float(watermark), -_FAR), _FAR) + abs(float(watermark)) * 1e-12) + 2
    if dtype.is_float():
        return int(_float_keys(np.array([float(watermark)]))[0]) + 1
    return math.floor(float(watermark)) + 1 if isinstance(watermark, float) else int(watermark) + 1


def eviction_order(column: pl.Series, hashes: pl.Series) -> pl.Series:
    """Keys to store rows by: roughly by a value, then by a part of the hash."""
    rough = column.cast(pl.Float64) if column.dtype.is_numeric() else column.to_physical().cast(pl.Float64)
    high = order_key(rough).to_numpy() >> _SPREAD
    low = (hashes.to_numpy().view(np.uint64) >> np.uint64(64 - _SPREAD)).view(np.int64)
    return pl.Series(hashes.name, (high << _SPREAD) | low)


def eviction_limit(watermark: WatermarkValue) -> int | None:
    """An upper bound (exclusive) of the `eviction_order` of all values at or below a watermark; few other values are
    below it. None if the watermark has no value."""
    if watermark is None or watermark == INFINITE:
        return None if watermark is None else HIGHEST >> _SPREAD << _SPREAD
    return ((int(_float_keys(np.array([float(watermark)]))[0]) + 8) >> _SPREAD) + 1 << _SPREAD


def eviction_floor(watermark: WatermarkValue) -> int | None:
    """A lower bound of `eviction_limit`: all values whose `eviction_order` is below it are below the watermark."""
    if watermark is None or watermark == INFINITE:
        return eviction_limit(watermark)
    return (int(_float_keys(np.array([float(watermark)]))[0]) - 8) >> _SPREAD << _SPREAD


def micros(column: pl.Series) -> pl.Series:
    """Times as microseconds since the epoch; a date is its midnight in UTC."""
    if column.dtype == pl.Date:
        return column.to_physical().cast(pl.Int64) * DAY
    return column.to_physical()


def watermark_micros(watermark: WatermarkValue, is_date: bool) -> int | None:
    """The watermark of a time in microseconds; None while it has no value."""
    return None if watermark is None else int(watermark) * (DAY if is_date else 1)


def _at(column: pl.Series, watermark: int | float | str, test: WatermarkTest) -> pl.Series:
    if column.dtype.is_float():
        column, watermark = column.cast(pl.Float64), float(watermark)
    else:
        column = column.to_physical().cast(pl.Int64)
        watermark = float(watermark) if isinstance(watermark, float) else int(watermark)
    return column <= watermark if test.inclusive else column < watermark


def _at_decimal(column: pl.Series, watermark: Decimal, test: WatermarkTest) -> pl.Series:
    """The watermark is rounded to the scale of the column, in the direction that does not change the result."""
    assert isinstance(column.dtype, pl.Decimal)
    scale = column.dtype.scale
    with localcontext(prec=100):
        rounding = ROUND_FLOOR if test.inclusive else ROUND_CEILING
        watermark = watermark.quantize(Decimal(1).scaleb(-scale), rounding)
        if abs(watermark.scaleb(scale)) >= Decimal(10) ** _DIGITS:
            return column.is_not_null() if watermark > 0 else column.is_not_null() & False
    limit = pl.Series([watermark], dtype=pl.Decimal(_DIGITS, scale))
    wide = column.cast(pl.Decimal(_DIGITS, scale))
    return wide <= limit if test.inclusive else wide < limit


def _float_keys(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bits of doubles as whole numbers in the order of the doubles; NaN is above all numbers."""
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    keys: np.ndarray[tuple[int], np.dtype[np.int64]] = np.where(bits < 0, ~(bits & HIGHEST), bits)
    return keys


def with_eviction_order(rows: pl.DataFrame, column: str | None) -> pl.DataFrame:
    """Rows with `__h` replaced by the eviction order of a column, if one is named."""
    return rows if column is None else rows.with_columns(eviction_order(rows[column], rows[HASH]))
