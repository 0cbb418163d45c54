"""From panes to hopping windows without taking every pane apart.

A window of 60 panes is the sum of one of 32, one of 16, one of 8 and one of 4 beside each other, and one of 32 is the
sum of two of 16. So the partial results of all windows take a few rounds, not 60 times the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH
from tidegate.kernels.aggregates.partial import Partial
from tidegate.kernels.frames import numbered
from tidegate.kernels.windows import Grid

MANY = 100_000
"""From how many pairs of panes and windows on the rounds are worth it."""


class Hops:
    """`partial` groups by hash alone: here a hash is the number of a key together with that of a window."""

    def __init__(self, partial: Partial, grid: Grid, keys: Sequence[str]) -> None:
        self._partial, self._grid, self._keys = partial, grid, list(keys)

    def pays(self, panes: int) -> bool:
        return self._grid.regular and panes * self._grid.panes_each > MANY

    def summed(self, rows: pl.DataFrame, pane: str) -> pl.DataFrame:
        """Partial results of panes as those of windows; `pane` is then the number of the window."""
        keys = rows.select(HASH, *self._keys).unique(maintain_order=True)
        number = numbered(rows, keys, self._keys)
        slides = self._grid.slides(rows[pane].to_numpy())
        lowest = int(slides.min()) - self._grid.panes_each
        width = int(slides.max()) - lowest + 1
        flat = pl.Series(HASH, number * width + (slides - lowest))
        windows = self._rounds(rows.drop(*self._keys, pane).with_columns(flat))
        key, place = windows[HASH] // width, windows[HASH] % width
        return windows.drop(HASH).with_columns(*keys[key], (place + lowest).alias(pane))

    def _rounds(self, level: pl.DataFrame) -> pl.DataFrame:
        """`level` has the sums of 1, 2, 4 ... panes; those that the length is made of are put beside each other."""
        length, covered, total = self._grid.panes_each, 0, level.clear()
        for power in range(length.bit_length()):
            if length >> power & 1:
                total = self._together(total, _earlier(level, covered))
                covered += 1 << power
            if length >> (power + 1):
                level = self._together(level, _earlier(level, 1 << power))
        return total

    def _together(self, one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
        return other if one.is_empty() else self._partial.combined(pl.concat([one, other], how="diagonal"))


def _earlier(rows: pl.DataFrame, panes: int) -> pl.DataFrame:
    return rows.with_columns(pl.col(HASH) - panes)
