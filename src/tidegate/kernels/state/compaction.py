"""Changes of a table's layout at the end of a step: a new run, part of the base rewritten, runs of similar size merged.

The rows in runs are kept at an eighth of the base by folding as many of the base's chunks as that takes. So a step of m
rows rewrites about 8 m rows of the base and never all of it, unless it changes much of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.kernels.state.chunks import CHUNK_BYTES, Chunks, Sorted
from tidegate.kernels.state.layout import Layout, Run
from tidegate.kernels.state.sorting import DEAD, LOWEST, Position, newest
from tidegate.kernels.state.table import RunTable

LEAST_CHUNK, LARGEST_CHUNK = 16_384, 65_536
LEAST_ABOVE = LEAST_CHUNK // 2
BASE_TO_RUNS = 8
CHUNKS = 16
TIER = 4
SMALL_RUN = 1024
LARGEST_RUN = 65_536


def settle(table: RunTable, chunks: Chunks) -> None:
    """Apply the pending writes of a table to its layout."""
    rows, grown, floor = table.take_writes()
    if floor is not None:
        _Compaction(table, chunks).evict_below(floor)
    if rows is not None:
        _Compaction(table, chunks).add(rows)
    if grown:
        table.layout = replace(table.layout, count=table.layout.count + grown)


class _Compaction:
    def __init__(self, table: RunTable, chunks: Chunks) -> None:
        self._table = table
        self._chunks = chunks
        self._layout = table.layout

    def evict_below(self, floor: Position) -> None:
        """Drop all rows below a position: whole chunks, and the lower part of the chunk that contains it."""
        runs = [(run, self._at_or_above(run.rows, floor)) for run in self._layout.runs]
        # Some of the dropped rows may have been folded already, so `left` may be too high now, but never too low.
        remaining = tuple(replace(run, rows=rows, left=min(run.left, rows.rows)) for run, rows in runs if rows.chunks)
        self._set_layout(replace(self._layout, base=self._at_or_above(self._layout.base, floor), runs=remaining))

    def _at_or_above(self, rows: Sorted, floor: Position) -> Sorted:
        remaining, rest = self._table.above(rows, floor)
        return Sorted((*(() if rest is None else self._to_chunks(rest).chunks), *remaining))

    def add(self, rows: pl.DataFrame) -> None:
        above = self._layout.above + rows.height
        if self._runs_too_large(above) and self._runs_dominate(above):
            self._rewrite(rows)
            return
        self._set_layout(replace(self._layout, runs=(*self._layout.runs, self._run(rows))))
        while self._runs_too_large(self._layout.above):
            if self._runs_dominate(self._layout.above):
                self._rewrite()
            else:
                self._fold()
        self._merge_runs()

    def _runs_too_large(self, above: int) -> bool:
        return above > max(LEAST_ABOVE, self._layout.base.rows // BASE_TO_RUNS)

    def _runs_dominate(self, above: int) -> bool:
        """True if the rows in runs are a large part of the table."""
        return 2 * above >= self._layout.base.rows

    def _set_layout(self, layout: Layout) -> None:
        self._table.layout = self._layout = layout

    def _run(self, rows: pl.DataFrame) -> Run:
        return Run(self._to_chunks(rows), self._layout.cycle, self._layout.cursor, rows.height)

    def _to_chunks(self, rows: pl.DataFrame) -> Sorted:
        return self._chunks.cut(rows, self._table.within, self._chunk_rows())

    def _chunk_rows(self) -> int:
        """The number of rows of a chunk: more in a large table, so that a step reads fewer chunks."""
        return min(max(self._layout.base.rows // CHUNKS, LEAST_CHUNK), LARGEST_CHUNK)

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return newest(frames, self._table.ident, self._table.within)

    def _rewrite(self, newer: pl.DataFrame | None = None) -> None:
        """Rewrite everything, and the rows `newer` than all that is stored, as the base."""
        rows = self._table.scan(newer)
        self._set_layout(Layout(self._layout.within, self._to_chunks(rows), count=self._layout.count))

    def _fold(self) -> None:
        """Rewrite the next chunk of the base (and more, if chunks are small) with the rows that runs have for it."""
        layout = self._layout
        low = layout.cursor
        first, last = _next_chunks(layout, self._chunk_rows())
        chunks = layout.base.chunks
        high = chunks[last].low if last < len(chunks) else None
        pieces = [self._table.slice(run.rows, run, low, high) for run in layout.runs]
        old = self._table.slice(Sorted(chunks[first:last]), None, LOWEST, None)
        rows = self._newest([*reversed(pieces), old]).filter(~pl.col(DEAD)).drop(DEAD)
        base = Sorted((*chunks[:first], *self._to_chunks(rows).chunks, *chunks[last:]))
        runs = tuple(replace(run, left=run.left - len(part)) for run, part in zip(layout.runs, pieces, strict=True))
        self._set_layout(replace(layout, base=base, runs=runs).with_folded(high))

    def _merge_runs(self) -> None:
        """Merge the newest runs if there are too many of similar size."""
        runs = self._layout.runs
        number = to_merge([run.left for run in runs], max(LARGEST_RUN, self._layout.base.rows // 32))
        if number < 2:
            return
        remaining = runs[:-number]
        frames = [self._table.slice(run.rows, run, LOWEST, None) for run in reversed(runs[-number:])]
        rows = self._newest(frames)
        if not remaining and not self._layout.base.chunks:
            rows = rows.filter(~pl.col(DEAD))
        self._set_layout(replace(self._layout, runs=(*remaining, self._run(rows)) if len(rows) else remaining))


def to_merge(sizes: Sequence[int], largest: int) -> int:
    """How many of the newest runs (at the end of `sizes`) to merge into one.

    >>> to_merge([5000, 10, 10, 10, 10], 65536)
    4
    """
    number, size = 1, sizes[-1] if sizes else 0
    while number < len(sizes):
        more = 0
        while number + more < len(sizes) and _rank(sizes[-number - more - 1]) <= _rank(size):
            more += 1
        absorbed = sum(sizes[len(sizes) - number - more : len(sizes) - number])
        if more + 1 < TIER or size + absorbed > largest:
            break
        number, size = number + more, size + absorbed
    return number


def _rank(rows: int) -> int:
    return 0 if rows < SMALL_RUN else 1 + int(math.log(rows / SMALL_RUN, TIER))


def _next_chunks(layout: Layout, most: int) -> tuple[int, int]:
    """The chunks of the base to fold next, as (first, end): one, or several small ones."""
    chunks = layout.base.chunks
    ahead = (number for number, chunk in enumerate(chunks) if layout.cursor == LOWEST or chunk.low >= layout.cursor)
    first = next(ahead, len(chunks))
    last, rows, size = first, 0, 0
    while last < len(chunks) and rows < most // 2 and size < CHUNK_BYTES // 2:
        rows, size, last = rows + chunks[last].rows, size + chunks[last].size, last + 1
    return first, last
