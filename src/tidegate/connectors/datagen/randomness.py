"""Random numbers that belong to a row's number: row i has the same ones however the rows are split into steps.

The generator is splitmix64 used as a hash of (key, row): nothing is carried over from row to row.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Bits = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def key_of(*parts: object) -> int:
    """A key for one purpose, such as (seed, column, "nulls"): other purposes have unrelated numbers."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def bits(key: int, rows: Rows) -> Bits:
    """64 random bits per row."""
    mixed = rows.astype(np.uint64) * _GAMMA + np.uint64(key)
    mixed ^= mixed >> np.uint64(30)
    mixed *= _MIX_1
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX_2
    mixed ^= mixed >> np.uint64(31)
    return mixed


def unit(key: int, rows: Rows) -> NDArray[np.float64]:
    """A number in [0, 1) per row."""
    return (bits(key, rows) >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def between(key: int, rows: Rows, low: int, high: int) -> Rows:
    """A whole number from low to high, both included, per row."""
    span = high - low + 1
    drawn = bits(key, rows)
    if span < 1 << 64:
        drawn %= np.uint64(span)
    return drawn.view(np.int64) + np.int64(low)
