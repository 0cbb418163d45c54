"""Whole numbers and decimals as limbs of 32 bits, for sums that need more than 64 bits and stay exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidegate.kernels.aggregates.exact import MASK, Floats, Ints


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


class Wide:
    """Sums of limbs, one per group."""

    def __init__(self, limbs: Sequence[Ints]) -> None:
        self._limbs = limbs

    def wrapped(self) -> pl.Series:
        """As BIGINT, which goes round when it overflows."""
        total = self._limbs[0].copy()
        for place, limb in enumerate(self._limbs[1:2], start=1):
            total += limb << (32 * place)
        return pl.Series(total)

    def floats(self) -> Floats:
        result = np.zeros(len(self._limbs[0]))
        for limb in reversed(self._limbs):
            result = result * 4294967296.0 + limb
        return result

    def integers(self) -> list[int]:
        columns = [limb.tolist() for limb in self._limbs]
        return [sum(limb << (32 * place) for place, limb in enumerate(row)) for row in zip(*columns, strict=True)]

    def decimal(self, precision: int, scale: int) -> pl.Series:
        """As a decimal; NULL where it does not fit."""
        digits = [*self._limbs, *[np.zeros_like(self._limbs[0])] * (5 - len(self._limbs))]
        for place in range(4):
            digits[place + 1] = digits[place + 1] + (digits[place] >> 32)
            digits[place] = digits[place] & MASK
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
