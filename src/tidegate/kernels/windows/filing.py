"""How what is kept of windows is filed: by their end first, so that those that are closed lie together at the front.

The number under which a row is filed has the mark of its window's end in the high bits and a part of the key's hash in
the low ones. Marks that are out of range are filed at the edge; nothing is ever known by its filing alone.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.kernels.windows.grid import Grid, Ints

_RANGE_US = 3 * 10**17
"""More than the microseconds from year 1 to 9999, either side of the epoch."""
_RANGE_MONTHS = 200_000
_MOST_BITS = 32


class Filing:
    def __init__(self, grid: Grid) -> None:
        marks = (_RANGE_MONTHS if grid.by_month else _RANGE_US) // grid.unit + 1
        self._bits = min(62 - marks.bit_length(), _MOST_BITS)
        self._grid, self._most = grid, 1 << (62 - self._bits)

    def filed(self, marks: Ints, hashes: Ints) -> Ints:
        """The numbers for windows with these marks and keys with these hashes."""
        spread = (hashes.view(np.uint64) >> np.uint64(64 - self._bits)).view(np.int64)
        return (np.clip(marks, -self._most, self._most - 1) << self._bits) | spread

    def of_window(self, filed: pl.Series) -> pl.Series:
        """The numbers without the part of the key."""
        return pl.Series(filed.name, filed.to_numpy() >> self._bits << self._bits)

    def limit(self, time_us: int) -> int:
        """Windows that end at or before a time are filed below this, all others are not."""
        return min(max(self._grid.mark_after(time_us), -self._most), self._most - 1) << self._bits
