"""A table of state: rows ordered by a hash, read from its base and runs, changed by one new run per step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.core.columns import HASH
from tidegate.kernels.state.chunks import Chunk, Chunks, LoadedChunk, Sorted
from tidegate.kernels.state.layout import Layout, Run
from tidegate.kernels.state.sorting import (
    DEAD,
    HIGHEST,
    LOWEST,
    Hashes,
    Indexes,
    Mask,
    Position,
    equal,
    first_after,
    first_at,
    newest,
    sort_order,
    spread,
)


class RunTable:
    """Rows as they were before the step: writes become visible with the state's commit.

    Rows are ordered by `__h`, and by the hash column `within` if it is named: then a single row of a large group is
    found without reading the group.
    """

    def __init__(
        self,
        chunks: Chunks,
        layout: Layout,
        columns: Mapping[str, pl.DataType],
        ident: Sequence[str],
        within: str | None,
    ) -> None:
        self.ident, self.within, self.layout = list(ident), within, layout
        order_columns = [HASH] if within is None else [HASH, within]
        self.schema = pl.Schema({**dict.fromkeys(order_columns, pl.Int64()), **columns})
        self._chunks = chunks
        self._writes: list[pl.DataFrame] = []
        self._grown = 0
        self._floor: Position | None = None

    def lookup(self, keys: pl.DataFrame) -> pl.DataFrame:
        return self.match(keys)[1]

    def match(self, keys: pl.DataFrame) -> tuple[Indexes, pl.DataFrame]:
        """The stored rows with the identities of `keys`, and for each the index of its row in `keys`."""
        hashes, within = self._positions(keys)
        keys = keys.select(HASH, *self.ident)
        order = sort_order(hashes, within)
        hashes, within = hashes[order], None if within is None else within[order]
        missing = np.ones(keys.height, dtype=np.bool_)
        matched: list[tuple[Indexes, pl.DataFrame]] = []
        for rows, run in self._components():
            left = np.flatnonzero(missing)
            if left.size == 0:
                break
            part = self._find(rows, run, hashes[left], None if within is None else within[left])
            if part is not None:
                numbers, hits = left[part[0]], part[1]
                same = equal(keys[order[numbers]], hits, self.ident)
                missing[numbers[same]] = False
                matched.append(_live_hits(order[numbers], hits, same))
        if not matched:
            return np.empty(0, dtype=np.intp), self._empty()
        return np.concatenate([numbers for numbers, _ in matched]), pl.concat([rows for _, rows in matched])

    def groups(self, hashes: pl.Series) -> pl.DataFrame:
        distinct = _distinct(hashes.to_numpy())
        return self._current([self._rows_with(rows, run, distinct) for rows, run in self._components()])

    def scan(self, newer: pl.DataFrame | None = None) -> pl.DataFrame:
        """All stored rows, updated by those of `newer`, which have the column DEAD."""
        stored = [self.slice(rows, run, LOWEST, None) for rows, run in self._components()]
        return self._current(stored if newer is None else [newer, *stored])

    @property
    def count(self) -> int:
        return self.layout.count + self._grown

    def lowest(self) -> int | None:
        floor = self._floor or LOWEST
        hashes = [rows[HASH].min() for rows in self._writes]
        for rows, _ in self._components():
            chunk = next(rows.between(floor, None), None)
            if chunk is not None:
                hashes.append(chunk.low[0] if chunk.low >= floor else self._slice_chunk(chunk, floor, None)[HASH][0])
        return min((int(str(hash)) for hash in hashes), default=None)

    def between(self, low: int | None, high: int | None, pending: bool = False) -> pl.DataFrame:
        start, end = _start_of(low) or LOWEST, _start_of(high)
        inside = pl.lit(True) if low is None else pl.col(HASH) >= low
        inside &= pl.lit(True) if high is None else pl.col(HASH) < high
        written = [rows.filter(inside) for rows in reversed(self._writes)] if pending else []
        return self._current([*written, *(self.slice(rows, run, start, end) for rows, run in self._components())])

    def evict_below(self, high: int | None) -> pl.DataFrame:
        """Delete rows at the commit, and return them; rows written after this call stay."""
        floor = _start_of(high) or HIGHEST
        below = pl.lit(True) if high is None else pl.col(HASH) < high
        stored = [self.slice(rows, run, LOWEST, floor) for rows, run in self._components()]
        evicted = self._current([*(rows.filter(below) for rows in reversed(self._writes)), *stored])
        self._writes = [rows for rows in (rows.filter(~below) for rows in self._writes) if len(rows)]
        self._floor = max(floor, self._floor or LOWEST)
        self._grown -= evicted.height
        return evicted

    def write(
        self, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None = None, grown: int | None = None
    ) -> None:
        """Upserts and deletes rows at the commit; of several writes to one identity the last wins. `grown` is the
        growth of the table in rows, if the caller knows it; else it is computed."""
        for rows, dead in ((upserts, False), (deletes, True)):
            if rows is None or rows.is_empty():
                continue
            if grown is None:
                known = len(self.match(rows)[0])
                self._grown += -known if dead else rows.height - known
            self._writes.append(self._to_run(rows, dead))
        self._grown += grown or 0

    def take_writes(self) -> tuple[pl.DataFrame | None, int, Position | None]:
        """Return and clear the pending writes: the rows of a run, the growth of the table, and the position below
        which all stored rows are evicted."""
        writes, grown, floor = self._writes, self._grown, self._floor
        self._writes, self._grown, self._floor = [], 0, None
        return (newest(writes[::-1], self.ident, self.within) if writes else None), grown, floor

    def above(self, rows: Sorted, floor: Position) -> tuple[list[Chunk], pl.DataFrame | None]:
        """The chunks of a component at or after a position, and the rest of the chunk that contains it."""
        whole = [chunk for chunk in rows.chunks if chunk.low >= floor]
        for chunk in rows.chunks:
            if chunk.low < floor <= chunk.high:
                return whole, self._slice_chunk(chunk, floor, None)
        return whole, None

    def slice(self, rows: Sorted, run: Run | None, low: Position, high: Position | None) -> pl.DataFrame:
        """The rows of a component with low <= position < high (None: no end) that still count, with DEAD."""
        frames = [self._slice_chunk(chunk, low, high) for chunk in rows.between(low, high)]
        return self._live_rows(pl.concat(frames), run) if frames else self._empty(with_dead=True)

    def _components(self) -> Iterator[tuple[Sorted, Run | None]]:
        """The components of the table, newest first: the runs, then the base (None)."""
        for run in reversed(self.layout.runs):
            yield run.rows, run
        yield self.layout.base, None

    def _find(
        self, rows: Sorted, run: Run | None, hashes: Hashes, within: Hashes | None
    ) -> tuple[Indexes, pl.DataFrame] | None:
        """The rows at the given positions, which are sorted, each with the index of its position."""
        numbers, hits = [], []
        live = None if run is None else self.layout.live(run, hashes, within)
        for chunk, part in rows.at_positions(hashes, within):
            part = part if live is None else part[live[part]]
            data = self._chunks.load(chunk, self.within)
            positions = hashes[part], None if within is None else within[part]
            start = first_at(data.hashes, data.within, *positions)
            count = first_after(data.hashes, data.within, *positions) - start
            if count.any():
                numbers.append(np.repeat(part, count))
                hits.append(data.frame[spread(start, count)])
        return (np.concatenate(numbers), pl.concat(hits)) if hits else None

    def _rows_with(self, rows: Sorted, run: Run | None, hashes: Hashes) -> pl.DataFrame:
        frames = []
        for chunk, part in rows.with_hashes(hashes):
            data = self._chunks.load(chunk, self.within)
            start = np.searchsorted(data.hashes, part, "left")
            count = np.searchsorted(data.hashes, part, "right") - start
            frames.append(data.frame[spread(start, count)])
        return self._live_rows(pl.concat(frames), run) if frames else self._empty(with_dead=True)

    def _slice_chunk(self, chunk: Chunk, low: Position, high: Position | None) -> pl.DataFrame:
        data = self._chunks.load(chunk, self.within)
        start = 0 if low <= chunk.low else _first_row(data, low)
        end = len(data.frame) if high is None or chunk.high < high else _first_row(data, high)
        return data.frame[start:end]

    def _live_rows(self, frame: pl.DataFrame, run: Run | None) -> pl.DataFrame:
        """The rows with DEAD, without those that are already folded into the base."""
        if run is None:
            return frame.with_columns(pl.lit(False).alias(DEAD))
        live = self.layout.live(run, *self._positions(frame))
        return frame if live is None else frame.filter(pl.Series(live))

    def _current(self, frames: list[pl.DataFrame]) -> pl.DataFrame:
        rows = newest(frames, self.ident, self.within)
        return rows.filter(~pl.col(DEAD)).drop(DEAD)

    def _to_run(self, rows: pl.DataFrame, dead: bool) -> pl.DataFrame:
        absent = [pl.lit(None, dtype).alias(name) for name, dtype in self.schema.items() if name not in rows.columns]
        with_dead = rows.with_columns(*absent, pl.lit(dead).alias(DEAD)).select(*self.schema, DEAD)
        return with_dead.cast(self.schema)

    def _positions(self, frame: pl.DataFrame) -> tuple[Hashes, Hashes | None]:
        return frame[HASH].to_numpy(), None if self.within is None else frame[self.within].to_numpy()

    def _empty(self, with_dead: bool = False) -> pl.DataFrame:
        return pl.DataFrame(schema={**self.schema, DEAD: pl.Boolean()} if with_dead else self.schema)


def _first_row(data: LoadedChunk, position: Position) -> int:
    """The index of the first row that is not below a position."""
    hashes, within = np.array([position[0]]), np.array([position[1]])
    return int(first_at(data.hashes, data.within, hashes, None if data.within is None else within)[0])


def _start_of(hash: int | None) -> Position | None:
    """The position before all rows of a hash."""
    return None if hash is None else (hash, LOWEST[1])


def _live_hits(numbers: Indexes, hits: pl.DataFrame, same: Mask) -> tuple[Indexes, pl.DataFrame]:
    """The hits of the right identity that are not deleted, without DEAD."""
    if DEAD in hits.columns:
        same = same & ~hits[DEAD].to_numpy()
        hits = hits.drop(DEAD)
    return (numbers, hits) if same.all() else (numbers[same], hits.filter(pl.Series(same)))


def _distinct(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sorted distinct hashes: sorting alone is many times faster than `np.unique`, which hashes first."""
    ordered = np.sort(hashes)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
