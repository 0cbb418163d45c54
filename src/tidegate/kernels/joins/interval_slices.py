"""How the rows of an interval join are filed: by slices of time first, so that rows that no row can meet any more lie
together at the front and are forgotten without being looked at, and by key within a slice.

The number under which a row is filed has its slice in the high bits and a part of the key's hash, its *code*, in the
low ones. Times that are out of range are filed at the edge; nothing is ever known by its filing alone.
"""

from __future__ import annotations

import numpy as np

from tidegate.kernels.ranking import Ints

_RANGE_US = 3 * 10**17
"""More than the microseconds from year 1 to 9999, either side of the epoch."""
SHORTEST_US = 1_000
_MOST_BITS = 32
_PER_REACH = 4
"""Slices in the time within which rows meet: with more of them fewer rows are read in vain, but in more places."""


class Slices:
    """`reach` is the length of the time within which the rows lie that are sought together."""

    def __init__(self, reach: int) -> None:
        self.length = max(reach // _PER_REACH, SHORTEST_US)
        self._bits = min(62 - (_RANGE_US // self.length + 1).bit_length(), _MOST_BITS)
        self._most = 1 << (62 - self._bits)

    def filed(self, times: Ints, hashes: Ints) -> Ints:
        """The numbers for rows with these times and hashes of keys."""
        spread = (hashes.view(np.uint64) >> np.uint64(64 - self._bits)).view(np.int64)
        return (self._slice(times) << self._bits) | spread

    def codes(self, filed: Ints) -> Ints:
        """What the numbers say of the key."""
        return filed & ((1 << self._bits) - 1)

    def cover(self, codes: Ints, low: Ints, high: Ints) -> Ints:
        """The numbers, some repeatedly, under which all rows are filed that have one of the codes and a time from `low`
        to `high`."""
        if not len(codes):
            return codes
        first, last = self._slice(low), self._slice(high)
        found = []
        for step in range(int((last - first).max()) + 1):
            inside = first + step <= last
            found.append(((first[inside] + step) << self._bits) | codes[inside])
        return np.concatenate(found)

    def below(self, time: int) -> int:
        """The slices that lie before a time as a whole are filed below this."""
        return min(max(time // self.length, -self._most), self._most - 1) << self._bits

    def _slice(self, times: Ints) -> Ints:
        return np.clip(times // self.length, -self._most, self._most - 1)
