"""Grouping by whole numbers that lie close together: each group has a place in an array, and nothing is hashed.

A million rows of 600 000 groups take a tenth of the time that a hash table takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]

ROOM = 4
"""How many places there may be for each row."""

FEW = 1 << 16
"""So many places are never too many."""

NUMBERS = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.Date, pl.Datetime, pl.Boolean)
"""Types whose values are stored as whole numbers."""

EXACT = 1 << 53
"""Below this, whole numbers are exact as doubles."""


@dataclass(frozen=True)
class Digit:
    """One key as a digit of a group's place: its value is `low` plus the digit times `unit`."""

    name: str
    dtype: pl.DataType
    low: int
    unit: int
    span: int

    def of(self, column: pl.Series) -> Ints:
        found: Ints = whole(column) - self.low
        return found if self.unit == 1 else found // self.unit

    def values(self, digits: Ints) -> pl.Series:
        return pl.Series(self.name, digits * self.unit + self.low).cast(self.dtype)


def summed(rows: pl.DataFrame, by: Sequence[str], units: Mapping[str, int], kept: str | None) -> pl.DataFrame | None:
    """Rows grouped by `by`, all other columns added up, of `kept` any value; None where it cannot be done so.

    `units`: of which number all values of a column are multiples, apart from what all have in common.
    """
    if rows.height < FEW or rows.height > EXACT or any(rows[name].null_count() for name in rows.columns):
        return None
    digits = _digits(rows, by, units)
    others = [name for name in rows.columns if name not in by and name != kept]
    if digits is None or not all(rows.schema[name] in (pl.Int64, pl.Float64) for name in others):
        return None
    places, total = _places(rows, digits)
    counts = np.bincount(places, minlength=total)
    there = np.flatnonzero(counts)
    sums = [pl.Series(name, _sums(rows[name], places, counts, there)) for name in others]
    firsts = [] if kept is None else [rows[kept].gather(_first(places, total)[there])]
    return pl.DataFrame([*_keys(there, digits), *firsts, *sums])


def whole(column: pl.Series) -> Ints:
    """The values of a column as they are stored, as 64-bit numbers."""
    found: Ints = column.to_physical().cast(pl.Int64).to_numpy()
    return found


def _digits(rows: pl.DataFrame, by: Sequence[str], units: Mapping[str, int]) -> list[Digit] | None:
    digits, total = [], 1
    for name in by:
        dtype = rows.schema[name]
        if dtype not in NUMBERS:
            return None
        values, unit = whole(rows[name]), units.get(name, 1)
        low, high = int(values.min()), int(values.max())
        digits.append(Digit(name, dtype, low, unit, (high - low) // unit + 1))
        total *= digits[-1].span
        if total > max(FEW, ROOM * rows.height):
            return None
    return digits


def _places(rows: pl.DataFrame, digits: Sequence[Digit]) -> tuple[Ints, int]:
    """The place of each row's group, and the number of places."""
    places, total = np.zeros(rows.height, dtype=np.int64), 1
    for digit in digits:
        places = places * digit.span + digit.of(rows[digit.name])
        total *= digit.span
    return places, total


def _keys(places: Ints, digits: Sequence[Digit]) -> list[pl.Series]:
    found = []
    for digit in reversed(digits):
        found.append(digit.values(places % digit.span))
        places = places // digit.span
    return found[::-1]


def _sums(column: pl.Series, places: Ints, counts: Ints, there: Ints) -> npt.NDArray[np.int64 | np.float64]:
    if column.dtype == pl.Float64:
        return np.bincount(places, weights=column.to_numpy(), minlength=len(counts))[there]
    low, high = int(str(column.min())), int(str(column.max()))
    if low == high == 1:
        return counts[there]
    if max(abs(low), abs(high)) * len(column) < EXACT:
        return np.bincount(places, weights=column.to_numpy(), minlength=len(counts))[there].astype(np.int64)
    total = np.zeros(len(counts), dtype=np.int64)
    np.add.at(total, places, column.to_numpy())
    return total[there]


def _first(places: Ints, total: int) -> Ints:
    """For each place the number of its first row."""
    first = np.zeros(total, dtype=np.int64)
    first[places[::-1]] = np.arange(len(places) - 1, -1, -1)
    return first
