"""Generators of column values from row numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Bits = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def key_of(*parts: object) -> int:
    """Derive a key for one purpose, such as (seed, column, "nulls"); keys of other purposes are unrelated."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def bits(key: int, rows: Rows) -> Bits:
    """Return 64 random bits per row."""
    mixed = rows.astype(np.uint64) * _GAMMA + np.uint64(key)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def unit(key: int, rows: Rows) -> NDArray[np.float64]:
    """Return a number in [0, 1) per row."""
    return (bits(key, rows) >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def between(key: int, rows: Rows, low: int, high: int) -> Rows:
    """Return an integer from low to high, inclusive, per row."""
    span = high - low + 1
    numbers = bits(key, rows)
    if span < 1 << 64:
        numbers %= np.uint64(span)
    return numbers.view(np.int64) + np.int64(low)


_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_LETTERS_PER_DRAW = 12
_DAY = 86_400_000_000


class Generator(Protocol):
    """Generates the values of one column from row numbers."""

    def make(self, rows: Rows) -> pa.Array[Any]: ...


@dataclass(frozen=True)
class Sequence:
    """start, start + step, ...; begins again after `end`."""

    type: pa.DataType
    start: int
    step: int = 1
    end: int | None = None
    prefix: str = ""

    def make(self, rows: Rows) -> pa.Array[Any]:
        if self.end is not None:
            rows = rows % ((self.end - self.start) // self.step + 1)
        return whole_numbers(rows * self.step + self.start, self.type, self.prefix)


@dataclass(frozen=True)
class Uniform:
    """Integers from `low` to `high`, inclusive; also as dates, timestamps and decimals."""

    type: pa.DataType
    key: int
    low: int
    high: int
    prefix: str = ""

    def make(self, rows: Rows) -> pa.Array[Any]:
        return whole_numbers(between(self.key, rows, self.low, self.high), self.type, self.prefix)


@dataclass(frozen=True)
class UniformReal:
    """Real numbers in [low, high)."""

    type: pa.DataType
    key: int
    low: float
    high: float

    def make(self, rows: Rows) -> pa.Array[Any]:
        return pa.array(self.low + unit(self.key, rows) * (self.high - self.low)).cast(self.type)


@dataclass(frozen=True)
class Zipf:
    """A Zipf distribution: the n-th value of low..high has the weight 1 / n^exponent."""

    type: pa.DataType
    key: int
    low: int
    high: int
    exponent: float
    prefix: str = ""

    def make(self, rows: Rows) -> pa.Array[Any]:
        ranks = np.searchsorted(_zipf_steps(self.high - self.low + 1, self.exponent), unit(self.key, rows), "right")
        return whole_numbers(ranks.astype(np.int64) + self.low, self.type, self.prefix)


@lru_cache(maxsize=16)
def _zipf_steps(count: int, exponent: float) -> NDArray[np.float64]:
    return _steps(np.arange(1, count + 1, dtype=np.float64) ** -exponent)


def _steps(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bounds in [0, 1) at which the second, third, ... value begins."""
    summed = np.cumsum(weights)
    return np.asarray(summed[:-1] / summed[-1], dtype=np.float64)


@dataclass(frozen=True)
class Choice:
    """One of several values, by weight."""

    key: int
    choices: pa.Array[Any]
    weights: tuple[float, ...]

    def make(self, rows: Rows) -> pa.Array[Any]:
        indices = np.searchsorted(_steps(np.array(self.weights)), unit(self.key, rows), "right")
        return self.choices.take(pa.array(indices))


@dataclass(frozen=True)
class Text:
    """Random letters and digits of a fixed length."""

    type: pa.DataType
    key: int
    length: int

    def make(self, rows: Rows) -> pa.Array[Any]:
        draws = -(-self.length // _LETTERS_PER_DRAW)
        numbers = np.stack([bits(key_of(self.key, draw), rows) for draw in range(draws)], axis=1)
        shifts = np.arange(_LETTERS_PER_DRAW, dtype=np.uint64) * np.uint64(5)
        fives = (numbers[:, :, None] >> shifts) & np.uint64(31)
        letters = _LETTERS[fives.reshape(len(rows), -1)[:, : self.length]]
        offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(self.length)
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())]
        return pa.Array.from_buffers(self.type, len(rows), buffers)


@dataclass(frozen=True)
class Timestamps:
    """start + row * step, each up to `disorder` too early. All in microseconds."""

    type: pa.DataType
    key: int
    start: int
    step: int
    disorder: int

    def make(self, rows: Rows) -> pa.Array[Any]:
        times = self.start + rows * self.step - between(self.key, rows, 0, self.disorder)
        return whole_numbers(times // _DAY if pa.types.is_date(self.type) else times, self.type)


@dataclass(frozen=True)
class Elements:
    """Arrays of a fixed length."""

    type: pa.DataType
    element: Generator
    length: int

    def make(self, rows: Rows) -> pa.Array[Any]:
        indices = (rows[:, None] * self.length + np.arange(self.length)).reshape(-1)
        offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * np.int32(self.length))
        return pa.ListArray.from_arrays(offsets, self.element.make(indices), type=self.type)


@dataclass(frozen=True)
class Fields:
    """Structs."""

    type: pa.StructType
    parts: tuple[Generator, ...]

    def make(self, rows: Rows) -> pa.Array[Any]:
        return pa.StructArray.from_arrays([part.make(rows) for part in self.parts], fields=self.type.fields)


@dataclass(frozen=True)
class WithNulls:
    """Another generator's values, some of them NULL."""

    type: pa.DataType
    values: Generator
    key: int
    rate: float

    def make(self, rows: Rows) -> pa.Array[Any]:
        missing = pa.array(unit(self.key, rows) < self.rate)
        return pc.if_else(missing, pa.scalar(None, self.type), self.values.make(rows))


def whole_numbers(values: Rows, target: pa.DataType, prefix: str = "") -> pa.Array[Any]:
    """Convert integers to a column: unscaled decimals, microseconds of timestamps, days of dates."""
    if pa.types.is_decimal(target):
        wide = np.stack([values, values >> np.int64(63)], axis=1)
        return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(wide.tobytes())])
    if pa.types.is_string(target):
        return pc.binary_join_element_wise(prefix, pa.array(values).cast(pa.string()), "")
    if pa.types.is_date(target):
        return pa.array(values.astype(np.int32)).cast(target)
    return pa.array(values).cast(target)
