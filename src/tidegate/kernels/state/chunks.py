"""Chunks: immutable pieces of sorted rows, one blob each, and sorted sequences of them."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from tidegate.core.columns import HASH
from tidegate.core.sized_cache import SizedCache
from tidegate.kernels.api import Segments
from tidegate.kernels.state.sorting import Hashes, Indexes, Position, first_after


@dataclass(frozen=True)
class LoadedChunk:
    """A chunk's rows, sorted by `hashes` and then by `within` (None in a table with one hash only)."""

    frame: pl.DataFrame
    hashes: Hashes
    within: Hashes | None
    size: int


class ChunkCache(SizedCache[bytes, LoadedChunk]):
    """An LRU cache of decoded chunks, up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit, lambda chunk: chunk.size + CHUNK_OVERHEAD)


CHUNK_OVERHEAD = 5_000
"""What a chunk in memory takes beside its rows, in bytes: 4 600 to 5 700 for a few rows of four to eight columns."""


CACHE = ChunkCache(int(os.environ.get("TIDEGATE_STATE_CACHE_MB", "512")) << 20)


CHUNK_BYTES = 4 << 20
ID_BYTES = 12


@dataclass(frozen=True)
class Chunk:
    """The index entry of a chunk: `low` and `high` are the positions of its first and last row, `size` its bytes in
    memory."""

    id: bytes
    rows: int
    size: int
    low: Position
    high: Position

    @property
    def name(self) -> str:
        return "chunk-" + self.id.hex()


@dataclass(frozen=True)
class Sorted:
    """Chunks in order, without overlaps. Rows of one position are in one chunk."""

    chunks: tuple[Chunk, ...] = ()

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    def at_positions(self, hashes: Hashes, within: Hashes | None) -> Iterator[tuple[Chunk, Indexes]]:
        """The chunks that may contain the sorted positions (`hashes`, `within`), each with the indexes of these
        positions."""
        low, low_within = self._lows
        number = first_after(low, None if within is None else low_within, hashes, within) - 1
        inside = np.flatnonzero(number >= 0)
        if inside.size == 0:
            return
        for part in np.split(inside, np.flatnonzero(np.diff(number[inside])) + 1):
            yield self.chunks[number[part[0]]], part

    def with_hashes(self, hashes: Hashes) -> Iterator[tuple[Chunk, Hashes]]:
        """The chunks that may contain rows with any of `hashes` (sorted), each with those hashes."""
        first = np.searchsorted(hashes, self._lows[0], "left")
        last = np.searchsorted(hashes, self._highs, "right")
        for number in np.flatnonzero(first < last):
            yield self.chunks[number], hashes[first[number] : last[number]]

    def between(self, low: Position, high: Position | None) -> Iterator[Chunk]:
        """The chunks that may contain rows with low <= position < high (None: no end)."""
        for chunk in self.chunks:
            if chunk.high >= low and (high is None or chunk.low < high):
                yield chunk

    @cached_property
    def _lows(self) -> tuple[Hashes, Hashes]:
        lows = np.array([chunk.low for chunk in self.chunks], dtype=np.int64).reshape(-1, 2)
        return lows[:, 0].copy(), lows[:, 1].copy()

    @cached_property
    def _highs(self) -> Hashes:
        return np.array([chunk.high[0] for chunk in self.chunks], dtype=np.int64)


class Chunks:
    """Reads and writes chunks. New ones are in memory until `flush`, so those that the same step merges again are never
    stored."""

    def __init__(self, segments: Segments, cache: ChunkCache) -> None:
        self._segments = segments
        self._cache = cache
        self._new: dict[bytes, LoadedChunk] = {}

    def load(self, chunk: Chunk, within: str | None) -> LoadedChunk:
        rows = self._new.get(chunk.id) or self._cache.get(chunk.id)
        if rows is None:
            rows = self._fetch(chunk, within)
            self._cache.put(chunk.id, rows)
        return rows

    def cut(self, frame: pl.DataFrame, within: str | None, most: int) -> Sorted:
        """Split sorted rows into chunks of at most about `most` rows."""
        if frame.is_empty():
            return Sorted()
        whole = load_frame(frame.rechunk(), within)
        return Sorted(tuple(self._add(load_frame(part, within)) for part in _parts(whole, most)))

    def flush(self, current: Iterable[Chunk], removed: Iterable[Chunk]) -> None:
        """Store the new chunks among `current`, and delete the chunks `removed`."""
        for chunk in current:
            rows = self._new.get(chunk.id)
            if rows is not None:
                self._segments.put(chunk.name, encode(rows.frame))
                self._cache.put(chunk.id, rows)
        for chunk in removed:
            self._segments.delete(chunk.name)
            self._cache.drop(chunk.id)
        self._new.clear()

    def _add(self, rows: LoadedChunk) -> Chunk:
        chunk = Chunk(
            secrets.token_bytes(ID_BYTES), rows.frame.height, rows.size, _position(rows, 0), _position(rows, -1)
        )
        self._new[chunk.id] = rows
        return chunk

    def _fetch(self, chunk: Chunk, within: str | None) -> LoadedChunk:
        blob = self._segments.get(chunk.name)
        if blob is None:
            raise RuntimeError(f"The state lacks {chunk.name}, which its index names.")
        return load_frame(decode(blob), within)


def encode(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="zstd")
    return buffer.getvalue()


def decode(blob: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(blob)).rechunk()


def load_frame(frame: pl.DataFrame, within: str | None) -> LoadedChunk:
    second = None if within is None else frame[within].to_numpy()
    return LoadedChunk(frame, frame[HASH].to_numpy(), second, int(frame.estimated_size()))


def _position(rows: LoadedChunk, row: int) -> Position:
    return int(rows.hashes[row]), 0 if rows.within is None else int(rows.within[row])


def _parts(rows: LoadedChunk, most: int) -> Iterator[pl.DataFrame]:
    """The rows in parts of about equal size; rows of one position are in one part."""
    total = rows.frame.height
    count = max(-(-total // most), -(-rows.size // CHUNK_BYTES))
    even = [total * part // count for part in range(1, count)]
    cuts = sorted({_position_start(rows, cut) for cut in even} | {0, total})
    for start, end in pairwise(cuts):
        # A slice would keep the whole frame in memory as long as one of its parts is cached.
        yield rows.frame.slice(start, end - start) if count == 1 else rows.frame[np.arange(start, end)]


def _position_start(rows: LoadedChunk, cut: int) -> int:
    """The index of the first row at or after `cut` whose position differs from the previous row's."""
    hashes, within = rows.hashes[cut - 1 : cut], None if rows.within is None else rows.within[cut - 1 : cut]
    return int(first_after(rows.hashes, rows.within, hashes, within)[0])
