"""Decoded chunks that this process has seen lately.

A chunk's id is drawn at random when it is written and its content never changes, so an entry can never be wrong: a step
that failed half way leaves chunks here that no index names, nothing worse.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decoded:
    """A chunk's rows, sorted by `hashes` and then by `within` (None in a table that is filed under one hash only)."""

    frame: pl.DataFrame
    hashes: Hashes
    within: Hashes | None
    size: int


class ChunkCache:
    """Keeps the chunks used last, up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._entries: OrderedDict[bytes, Decoded] = OrderedDict()

    def get(self, chunk: bytes) -> Decoded | None:
        entry = self._entries.get(chunk)
        if entry is not None:
            self._entries.move_to_end(chunk)
        return entry

    def put(self, chunk: bytes, entry: Decoded) -> None:
        self.drop(chunk)
        self._entries[chunk] = entry
        self.size += entry.size
        while self.size > self.limit and self._entries:
            self.drop(next(iter(self._entries)))

    def drop(self, chunk: bytes) -> None:
        entry = self._entries.pop(chunk, None)
        if entry is not None:
            self.size -= entry.size

    def clear(self) -> None:
        self._entries.clear()
        self.size = 0


CACHE = ChunkCache(int(os.environ.get("TIDEGATE_STATE_CACHE_MB", "512")) << 20)
