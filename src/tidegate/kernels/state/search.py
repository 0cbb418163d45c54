"""Binary search in rows that are sorted by one hash, or by a hash and a second one within it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.kernels.state.cache import Hashes

Places = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Position = tuple[int, int]
"""A point in the order of rows: hash, and hash within (0 where there is none)."""

LOWEST: Position = (-(1 << 63), -(1 << 63))
HIGHEST: Position = (1 << 63, 0)
"""After every row that can be."""


def first_at(hashes: Hashes, within: Hashes | None, wanted: Hashes, wanted_within: Hashes | None) -> Places:
    """For each wanted pair the first row that is not below it."""
    if within is None or wanted_within is None:
        return np.searchsorted(hashes, wanted, "left")
    return _bisect(hashes, within, wanted, wanted_within, after=False)


def first_after(hashes: Hashes, within: Hashes | None, wanted: Hashes, wanted_within: Hashes | None) -> Places:
    """For each wanted pair the first row above it."""
    if within is None or wanted_within is None:
        return np.searchsorted(hashes, wanted, "right")
    return _bisect(hashes, within, wanted, wanted_within, after=True)


def _bisect(hashes: Hashes, within: Hashes, wanted: Hashes, wanted_within: Hashes, after: bool) -> Places:
    low = np.searchsorted(hashes, wanted, "left")
    high = np.searchsorted(hashes, wanted, "right")
    while True:
        active = low < high
        if not active.any():
            return low
        middle = np.where(active, (low + high) >> 1, 0)
        found = within[middle]
        below = active & ((found <= wanted_within) if after else (found < wanted_within))
        low = np.where(below, middle + 1, low)
        high = np.where(active & ~below, middle, high)


def not_below(position: Position, hashes: Hashes, within: Hashes | None) -> Mask:
    """Which rows are at or after a position."""
    result: Mask = hashes >= position[0]
    if within is not None:
        result &= (hashes > position[0]) | (within >= position[1])
    return result


def spread(starts: Places, counts: Places) -> Places:
    """The numbers starts[0], starts[0]+1, ... (counts[0] of them), starts[1], ... : ranges laid end to end."""
    if counts.size == 0 or int(counts.max()) <= 1:
        return starts[counts > 0]
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)
