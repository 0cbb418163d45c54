"""Exact sums of doubles: a retraction removes exactly what the insertion added.

A double is a 53-bit integer times a power of two. It is cut into *limbs* of 32 bits at fixed positions: limb i counts
2**(32 i - 1074). Limbs add up as 64-bit integers, in any order, with the same result (for up to 2**31 rows a group).
NaN and infinities are counted separately, as limbs of negative index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNIT = -1074
NAN, PLUS, MINUS = -1, -2, -3
MASK = np.int64(0xFFFFFFFF)
LIMBS = 3
_SPECIAL = 0x7FF
_BATCH = 16_384


def split(values: Floats, weights: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Each value times its weight, as the index of its lowest limb and three limbs."""
    bits = values.view(np.int64)
    exponent = (bits >> 52) & _SPECIAL
    mantissa = (bits & ((1 << 52) - 1)) | ((exponent > 0).astype(np.int64) << 52)
    bit = np.maximum(exponent, 1) - 1
    index, shift = bit >> 5, bit & 31
    signed = np.where(bits < 0, -weights, weights)
    rest = mantissa >> (32 - shift)
    limbs = ((mantissa << shift) & MASK) * signed, (rest & MASK) * signed, (rest >> 32) * signed
    special = exponent == _SPECIAL
    return _apart(values, weights, special, index, limbs) if special.any() else (index, *limbs)


def _apart(
    values: Floats, weights: Ints, special: npt.NDArray[np.bool_], index: Ints, limbs: tuple[Ints, Ints, Ints]
) -> tuple[Ints, Ints, Ints, Ints]:
    kind = np.where(np.isnan(values), NAN, np.where(values > 0, PLUS, MINUS))
    low, middle, high = (np.where(special, 0, limb) for limb in limbs)
    return np.where(special, kind, index), np.where(special, weights, low), middle, high


@dataclass(frozen=True)
class ExactSums:
    """Exact sums of `count` groups: the limb `index[j]` of group `group[j]` is `value[j]`. Sorted, none is zero."""

    count: int
    group: Ints
    index: Ints
    value: Ints

    @staticmethod
    def sum(count: int, group: Ints, index: Ints, value: Ints) -> ExactSums:
        """Adds up limbs that come in any order and number."""
        key = group * 256 + index
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
        first = np.flatnonzero(np.diff(key, prepend=np.iinfo(np.int64).min))
        total = np.add.reduceat(value, first) if first.size else value
        nonzero, total = key[first][total != 0], total[total != 0]
        group = (nonzero + 8) >> 8
        return ExactSums(count, group, nonzero - group * 256, total)

    @staticmethod
    def read(index: pl.Series, value: pl.Series) -> ExactSums:
        """From the two list columns that hold limbs (in any order, possibly several of one index)."""
        lengths = index.list.len().fill_null(0).to_numpy()
        group = np.repeat(np.arange(len(index)), lengths)
        return ExactSums.sum(len(index), group, _flat(index), _flat(value))

    def columns(self) -> tuple[pl.Series, pl.Series]:
        """As two list columns, one row per group."""
        ends = np.cumsum(np.bincount(self.group, minlength=self.count))
        offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
        return _lists(offsets, self.index), _lists(offsets, self.value)

    def floats(self) -> Floats:
        """Each sum as the double next to it."""
        result = np.zeros(self.count)
        finite = self.index >= 0
        group, index, value = self.group[finite], self.index[finite], self.value[finite]
        for start in range(0, self.count, _BATCH):
            low, high = np.searchsorted(group, [start, start + _BATCH])
            if low < high:
                part = group[low:high] - start
                done = _rounded(part, index[low:high], value[low:high], min(_BATCH, self.count - start))
                result[start : start + _BATCH] = done
        return self._with_specials(result)

    def integers(self) -> list[int]:
        """Each sum as an exact number of units of 2**UNIT, without values that are not finite."""
        result = [0] * self.count
        for group, index, value in zip(self.group.tolist(), self.index.tolist(), self.value.tolist(), strict=True):
            if index >= 0:
                result[group] += value << (32 * index)
        return result

    def finite(self) -> npt.NDArray[np.bool_]:
        """A mask of the groups that hold numbers only."""
        result: npt.NDArray[np.bool_] = np.bincount(self.group[self.index < 0], minlength=self.count) == 0
        return result

    def _with_specials(self, result: Floats) -> Floats:
        for kind, outcome in ((PLUS, np.inf), (MINUS, -np.inf), (NAN, np.nan)):
            groups = self.group[(self.index == kind) & (self.value > 0)]
            both = np.isinf(result[groups]) & (kind == MINUS)
            result[groups] = np.where(both, np.nan, outcome)
        return result


def _rounded(group: Ints, index: Ints, value: Ints, count: int) -> Floats:
    """Rounds sums of limbs to doubles, to nearest and even on ties: the top 64 bits, the rest as one sticky bit."""
    lowest = np.full(count, 1 << 20)
    np.minimum.at(lowest, group, index)
    lowest[lowest == 1 << 20] = 0
    width = int((index - lowest[group]).max()) + 3
    limbs = np.zeros((count, width), dtype=np.int64)
    limbs[group, index - lowest[group]] = value
    _carry(limbs)
    negative = limbs[:, -1] < 0
    limbs[negative] = _negated(limbs[negative])
    top = width - 1 - np.argmax(limbs[:, ::-1] != 0, axis=1)
    first, second, third = (_digit(limbs, top - back) for back in range(3))
    sticky = _any_below(limbs, top - 3)
    shift = (32 - np.frexp(first.astype(np.float64))[1]).astype(np.uint64)
    head = (((first << np.uint64(32)) | second) << shift) | (third >> (np.uint64(32) - shift))
    sticky |= ((third << shift) & np.uint64(MASK)) != 0
    rounded = (head | sticky).astype(np.float64)
    with np.errstate(over="ignore"):
        rounded = np.ldexp(rounded, 32 * (lowest + top - 1) - shift.astype(np.int64) + UNIT)
    return np.where(first == 0, 0.0, np.where(negative, -rounded, rounded))


def _carry(limbs: Ints) -> None:
    """Makes every limb but the last a digit from 0 to 2**32 - 1; the sign is left in the last."""
    for column in range(limbs.shape[1] - 1):
        limbs[:, column + 1] += limbs[:, column] >> 32
        limbs[:, column] &= MASK


def _negated(limbs: Ints) -> Ints:
    result = -limbs
    _carry(result)
    return result


def _digit(limbs: Ints, column: Ints) -> npt.NDArray[np.uint64]:
    limb = limbs[np.arange(len(limbs)), np.maximum(column, 0)]
    return np.where(column < 0, 0, limb).astype(np.uint64)


def _any_below(limbs: Ints, column: Ints) -> npt.NDArray[np.bool_]:
    """True if any limb up to and including `column` is not zero."""
    seen = np.cumsum(limbs != 0, axis=1)[np.arange(len(limbs)), np.maximum(column, 0)] > 0
    return np.where(column < 0, False, seen)


def _flat(lists: pl.Series) -> Ints:
    flat = lists.explode(empty_as_null=False, keep_nulls=False)
    return flat.cast(pl.Int64).to_numpy()


def _lists(offsets: pa.Array, values: Ints) -> pl.Series:
    return pl.Series(values=pa.LargeListArray.from_arrays(offsets, pa.array(values, pa.int64())))
