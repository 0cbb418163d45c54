"""What a group keeps of its rows in a form that adds up: counts, whole sums, exact sums of doubles.

An accumulator says what one row contributes; the kernel multiplies by the row's weight and adds. A retraction therefore
takes away exactly what its insertion brought. Equal accumulators of several calls are kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.kernels.aggregates.exact import Floats, Ints, Reals
from tidegate.kernels.aggregates.wide import Wide, limbs_of


class Whole:
    """An accumulator of 64-bit integers, `width` of them, that go round when they overflow."""

    width: int = 1

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        """What each row contributes."""
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
class Truths(Whole):
    """Rows in which a boolean column is `wanted`."""

    column: str
    wanted: bool

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [(rows[self.column] == self.wanted).fill_null(False).cast(pl.Int64)]

    def read(self, sums: Sequence[Ints]) -> Ints:
        return sums[0]


@dataclass(frozen=True)
class Limbs(Whole):
    """The sum of a whole-number or decimal column, in `width` limbs."""

    column: str
    width: int = 1

    def terms(self, rows: pl.DataFrame) -> list[pl.Series]:
        return [pl.Series(limb) for limb in limbs_of(_physical(rows[self.column]), self.width)]

    def read(self, sums: Sequence[Ints]) -> Wide:
        return Wide(sums)


@dataclass(frozen=True)
class Real:
    """The exact sum of a column, or of the products of two, as doubles, over the rows in which all `present` have
    values."""

    factors: tuple[str, ...]
    present: tuple[str, ...]

    @property
    def parts(self) -> int:
        """How many doubles a row contributes."""
        return len(self.factors)

    def pieces(self, rows: pl.DataFrame) -> list[Floats]:
        """Doubles whose sum is what each row contributes (0 where a value is missing)."""
        first, *others = (doubles(rows[name]) for name in self.factors)
        pieces = [first]
        for other in others:
            pieces = _product(first, other)
        return pieces

    def counts(self, rows: pl.DataFrame) -> pl.Series:
        """Which rows contribute at all."""
        return _present(rows, self.present)

    def read(self, index: pl.Series, value: pl.Series) -> Reals:
        return Reals.read(index, value)


@dataclass(frozen=True)
class Double:
    """The sum of a column as one double: for input that never retracts, where rounding leaves nothing behind that a
    retraction would bring to light."""

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


Accumulator = Count | Truths | Limbs | Real | Double
Kept = Ints | Wide | Reals | Doubles


def doubles(column: pl.Series) -> Floats:
    return column.cast(pl.Float64, strict=False).fill_null(0.0).rechunk().to_numpy()


def _product(left: Floats, right: Floats) -> list[Floats]:
    """The product as two doubles, rounded and remainder (Dekker); what is out of range has no remainder."""
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
