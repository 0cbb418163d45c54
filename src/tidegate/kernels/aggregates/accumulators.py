"""State of a group that adds up: counts, sums of integers and decimals, exact sums of doubles.

An accumulator computes the term of one row; the kernel multiplies it by the row's weight and adds. A retraction
therefore subtracts exactly what its insertion added. Equal accumulators of several calls are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidegate.kernels.aggregates.exact import MASK, ExactSums, Floats, Ints


def unscaled(column: pl.Series) -> tuple[npt.NDArray[np.uint64], Ints]:
    """A decimal column's digits as 128-bit integers: low and high halves; NULL is 0."""
    array = column.cast(pl.Decimal(38, _scale(column))).fill_null(0).rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1], dtype=np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    return words[:, 0], words[:, 1].view(np.int64)


def limbs_of(column: pl.Series, number: int) -> list[Ints]:
    """A whole-number or decimal column as `number` limbs (1, 2 or 4), the last one signed; NULL is 0. A single limb is
    the number itself."""
    if isinstance(column.dtype, pl.Decimal):
        low, high = unscaled(column)
    else:
        low, high = column.fill_null(0).cast(pl.Int64).to_numpy().view(np.uint64), np.empty(0, dtype=np.int64)
    if number == 1:
        return [low.view(np.int64)]
    if number == 2:
        return [(low & np.uint64(MASK)).astype(np.int64), low.view(np.int64) >> 32]
    return [(low & np.uint64(MASK)).astype(np.int64), (low >> np.uint64(32)).astype(np.int64), high & MASK, high >> 32]


class WideSums:
    """Sums of limbs, one per group."""

    def __init__(self, limbs: Sequence[Ints]) -> None:
        self._limbs = limbs

    def wrapped(self) -> pl.Series:
        """As BIGINT, which wraps around on overflow."""
        total = self._limbs[0].copy()
        for index, limb in enumerate(self._limbs[1:2], start=1):
            total += limb << (32 * index)
        return pl.Series(total)

    def floats(self) -> Floats:
        result = np.zeros(len(self._limbs[0]))
        for limb in reversed(self._limbs):
            result = result * 4294967296.0 + limb
        return result

    def integers(self) -> list[int]:
        columns = [limb.tolist() for limb in self._limbs]
        return [sum(limb << (32 * index) for index, limb in enumerate(row)) for row in zip(*columns, strict=True)]

    def decimal(self, precision: int, scale: int) -> pl.Series:
        """As a decimal; NULL where it does not fit."""
        digits = [*self._limbs, *[np.zeros_like(self._limbs[0])] * (5 - len(self._limbs))]
        for index in range(4):
            digits[index + 1] = digits[index + 1] + (digits[index] >> 32)
            digits[index] = digits[index] & MASK
        words = np.stack([digits[0] | (digits[1] << 32), digits[2] | (digits[3] << 32)], axis=1)
        column = _decimals(words, precision, scale)
        bad = self._too_large(precision)
        return column.set(pl.Series(bad), None) if bad.any() else column

    def _too_large(self, precision: int) -> npt.NDArray[np.bool_]:
        limit = 10**precision
        bad: npt.NDArray[np.bool_] = np.abs(self.floats()) > limit * 0.999999
        if bad.any():
            exact = self.integers()
            bad = np.array([doubt and abs(exact[row]) >= limit for row, doubt in enumerate(bad.tolist())])
        return bad


def decimals(values: Sequence[int | None], precision: int, scale: int) -> pl.Series:
    """A decimal column of unscaled integers; None, and what does not fit, is NULL."""
    limit = 10**precision
    fits = [value is not None and abs(value) < limit for value in values]
    plain = [value if fit and value is not None else 0 for value, fit in zip(values, fits, strict=True)]
    words = b"".join(value.to_bytes(16, "little", signed=True) for value in plain)
    column = _decimals(np.frombuffer(words, dtype=np.int64), precision, scale)
    return column.set(~pl.Series(fits, dtype=pl.Boolean), None) if not all(fits) else column


def _decimals(words: Ints, precision: int, scale: int) -> pl.Series:
    buffer = pa.py_buffer(np.ascontiguousarray(words))
    return pl.Series(values=pa.Array.from_buffers(pa.decimal128(precision, scale), words.size // 2, [None, buffer]))


def _scale(column: pl.Series) -> int:
    assert isinstance(column.dtype, pl.Decimal)
    return column.dtype.scale


class Whole:
    """An accumulator of 64-bit integers, `width` of them, that go round when they overflow."""

    width: int = 1

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        """The contribution of each row."""
        raise NotImplementedError


@dataclass(frozen=True)
class Count(Whole):
    """Rows in which every one of `columns` has a value."""

    columns: tuple[str, ...]

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        if not any(rows[name].null_count() for name in self.columns):
            return [pl.repeat(1, rows.height, dtype=pl.Int64, eager=True)]
        return [_present(rows, self.columns).cast(pl.Int64)]

    def read(self, sums: Sequence[Ints]) -> Ints:
        return sums[0]


@dataclass(frozen=True)
class CountEqual(Whole):
    """Rows in which a boolean column is `value`."""

    column: str
    value: bool

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [(rows[self.column] == self.value).fill_null(False).cast(pl.Int64)]

    def read(self, sums: Sequence[Ints]) -> Ints:
        return sums[0]


@dataclass(frozen=True)
class LimbSum(Whole):
    """The sum of a whole-number or decimal column, in `width` limbs."""

    column: str
    width: int = 1

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [pl.Series(limb) for limb in limbs_of(_physical(rows[self.column]), self.width)]

    def read(self, sums: Sequence[Ints]) -> WideSums:
        return WideSums(sums)


@dataclass(frozen=True)
class ExactSum:
    """The exact sum of a column, or of the products of two, as doubles, over the rows in which all `present` have
    values."""

    factors: tuple[str, ...]
    present: tuple[str, ...]

    @property
    def parts(self) -> int:
        """The number of doubles that a row contributes."""
        return len(self.factors)

    def pieces(self, rows: pl.DataFrame) -> list[Floats]:
        """Doubles whose sum is what each row contributes (0 where a value is missing)."""
        first, *others = (doubles(rows[name]) for name in self.factors)
        pieces = [first]
        for other in others:
            pieces = _product(first, other)
        return pieces

    def counts(self, rows: pl.DataFrame) -> pl.Series:
        """A mask of the rows that contribute."""
        return _present(rows, self.present)

    def read(self, index: pl.Series, value: pl.Series) -> ExactSums:
        return ExactSums.read(index, value)


@dataclass(frozen=True)
class DoubleSum:
    """The sum of a column as one double, for append-only input: without retractions a rounding error cannot surface."""

    column: str
    width: int = 1

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [rows[self.column].cast(pl.Float64, strict=False).fill_null(0.0)]

    def read(self, sums: Sequence[Floats]) -> Doubles:
        return Doubles(sums[0])


@dataclass(frozen=True)
class Doubles:
    """Sums that are doubles already."""

    values: Floats

    def floats(self) -> Floats:
        return self.values


Accumulator = Count | CountEqual | LimbSum | ExactSum | DoubleSum
Kept = Ints | WideSums | ExactSums | Doubles


def doubles(column: pl.Series) -> Floats:
    return column.cast(pl.Float64, strict=False).fill_null(0.0).rechunk().to_numpy()


def _product(left: Floats, right: Floats) -> list[Floats]:
    """The product as two doubles, rounded value and remainder (Dekker). The remainder is 0 if it is out of range."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        rounded = left * right
        (a, b), (c, d) = _halves(left), _halves(right)
        rest = ((a * c - rounded) + a * d + b * c) + b * d
    return [rounded, np.where(np.isfinite(rest), rest, 0.0)]


def _halves(values: Floats) -> tuple[Floats, Floats]:
    scaled = values * 134217729.0
    high = scaled - (scaled - values)
    return high, values - high


def _physical(column: pl.Series) -> pl.Series:
    return column.to_physical() if column.dtype == pl.Duration else column


def _present(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    present = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
    for name in columns:
        present = present & rows[name].is_not_null()
    return present
