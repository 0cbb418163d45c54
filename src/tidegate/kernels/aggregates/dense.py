"""Grouping by whole numbers that lie close together: each group has a slot in an array, and nothing is hashed.

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
"""The largest number of slots per row."""

FEW = 1 << 16
"""Up to this number of slots is always acceptable."""

NUMBERS = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.Date, pl.Datetime, pl.Boolean)
"""Types whose values are stored as whole numbers."""

EXACT = 1 << 53
"""Below this, whole numbers are exact as doubles."""


@dataclass(frozen=True)
class Digit:
    """One key as a digit of a group's slot: its value is `low` plus the digit times `unit`."""

    name: str
    dtype: pl.DataType
    low: int
    unit: int
    span: int

    def of(self, column: pl.Series) -> Ints:
        offset: Ints = whole(column) - self.low
        return offset if self.unit == 1 else offset // self.unit

    def values(self, digits: Ints) -> pl.Series:
        return pl.Series(self.name, digits * self.unit + self.low).cast(self.dtype)


def sum_groups(
    rows: pl.DataFrame, by: Sequence[str], units: Mapping[str, int], any_of: str | None
) -> pl.DataFrame | None:
    """Rows grouped by `by`, all other columns added up, of `any_of` any value; None if the keys are too sparse.

    `units`: of which number all values of a column are multiples, apart from what all have in common.
    """
    if rows.height < FEW or rows.height > EXACT or any(rows[name].null_count() for name in rows.columns):
        return None
    digits = _digits(rows, by, units)
    others = [name for name in rows.columns if name not in by and name != any_of]
    if digits is None or not all(rows.schema[name] in (pl.Int64, pl.Float64) for name in others):
        return None
    slots, total = _slots(rows, digits)
    counts = np.bincount(slots, minlength=total)
    used = np.flatnonzero(counts)
    sums = [pl.Series(name, _sums(rows[name], slots, counts, used)) for name in others]
    firsts = [] if any_of is None else [rows[any_of].gather(_first(slots, total)[used])]
    return pl.DataFrame([*_keys(used, digits), *firsts, *sums])


def whole(column: pl.Series) -> Ints:
    """The values of a column as they are stored, as 64-bit numbers."""
    numbers: Ints = column.to_physical().cast(pl.Int64).to_numpy()
    return numbers


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


def _slots(rows: pl.DataFrame, digits: Sequence[Digit]) -> tuple[Ints, int]:
    """The slot of each row's group, and the number of slots."""
    slots, total = np.zeros(rows.height, dtype=np.int64), 1
    for digit in digits:
        slots = slots * digit.span + digit.of(rows[digit.name])
        total *= digit.span
    return slots, total


def _keys(slots: Ints, digits: Sequence[Digit]) -> list[pl.Series]:
    keys = []
    for digit in reversed(digits):
        keys.append(digit.values(slots % digit.span))
        slots = slots // digit.span
    return keys[::-1]


def _sums(column: pl.Series, slots: Ints, counts: Ints, used: Ints) -> npt.NDArray[np.int64 | np.float64]:
    if column.dtype == pl.Float64:
        return np.bincount(slots, weights=column.to_numpy(), minlength=len(counts))[used]
    low, high = int(str(column.min())), int(str(column.max()))
    if low == high == 1:
        return counts[used]
    if max(abs(low), abs(high)) * len(column) < EXACT:
        return np.bincount(slots, weights=column.to_numpy(), minlength=len(counts))[used].astype(np.int64)
    total = np.zeros(len(counts), dtype=np.int64)
    np.add.at(total, slots, column.to_numpy())
    return total[used]


def _first(slots: Ints, total: int) -> Ints:
    """The index of the first row of each slot."""
    first = np.zeros(total, dtype=np.int64)
    first[slots[::-1]] = np.arange(len(slots) - 1, -1, -1)
    return first
