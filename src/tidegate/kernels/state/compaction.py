"""What becomes of a table's layout when a step ends: a new run, some of the base rewritten, runs of a like size merged.

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
    """Gives the table the layout that has in it what was written."""
    rows, grown, floor = table.take_writes()
    if floor is not None:
        _Compaction(table, chunks).cut(floor)
    if rows is not None:
        _Compaction(table, chunks).add(rows)
    if grown:
        table.layout = replace(table.layout, count=table.layout.count + grown)


class _Compaction:
    def __init__(self, table: RunTable, chunks: Chunks) -> None:
        self._table = table
        self._chunks = chunks
        self._layout = table.layout

    def cut(self, floor: Position) -> None:
        """Drops everything below a position: whole chunks, and the lower part of the chunk that it cuts."""
        runs = [(run, self._above(run.rows, floor)) for run in self._layout.runs]
        # Some of what is cut off may have been folded already, so `left` may be too high now, but never too low.
        kept = tuple(replace(run, rows=rows, left=min(run.left, rows.rows)) for run, rows in runs if rows.chunks)
        self._become(replace(self._layout, base=self._above(self._layout.base, floor), runs=kept))

    def _above(self, rows: Sorted, floor: Position) -> Sorted:
        kept, rest = self._table.above(rows, floor)
        return Sorted((*(() if rest is None else self._cut(rest).chunks), *kept))

    def add(self, rows: pl.DataFrame) -> None:
        if self._too_many(self._layout.above + rows.height) and self._outgrown(self._layout.above + rows.height):
            self._rewrite(rows)
            return
        self._become(replace(self._layout, runs=(*self._layout.runs, self._run(rows))))
        while self._too_many(self._layout.above):
            if self._outgrown(self._layout.above):
                self._rewrite()
            else:
                self._fold()
        self._merge_runs()

    def _too_many(self, above: int) -> bool:
        return above > max(LEAST_ABOVE, self._layout.base.rows // BASE_TO_RUNS)

    def _outgrown(self, above: int) -> bool:
        """True if the rows in runs are a large part of the table."""
        return 2 * above >= self._layout.base.rows

    def _become(self, layout: Layout) -> None:
        self._table.layout = self._layout = layout

    def _run(self, rows: pl.DataFrame) -> Run:
        return Run(self._cut(rows), self._layout.cycle, self._layout.cursor, rows.height)

    def _cut(self, rows: pl.DataFrame) -> Sorted:
        return self._chunks.cut(rows, self._table.within, self._chunk_rows())

    def _chunk_rows(self) -> int:
        """How many rows a chunk should have: more in a large table, so that a step need not look into many chunks."""
        return min(max(self._layout.base.rows // CHUNKS, LEAST_CHUNK), LARGEST_CHUNK)

    def _newest(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return newest(frames, self._table.ident, self._table.within)

    def _rewrite(self, newer: pl.DataFrame | None = None) -> None:
        """Everything becomes base, with rows that are newer than all that is stored."""
        rows = self._table.scan(newer)
        self._become(Layout(self._layout.within, self._cut(rows), count=self._layout.count))

    def _fold(self) -> None:
        """Rewrites the base's next chunk (and more, where little is left of it) with what the runs have for it."""
        layout = self._layout
        low = layout.cursor
        first, last = _next_chunks(layout, self._chunk_rows())
        chunks = layout.base.chunks
        high = chunks[last].low if last < len(chunks) else None
        pieces = [self._table.slice(run.rows, run, low, high) for run in layout.runs]
        old = self._table.slice(Sorted(chunks[first:last]), None, LOWEST, None)
        rows = self._newest([*reversed(pieces), old]).filter(~pl.col(DEAD)).drop(DEAD)
        base = Sorted((*chunks[:first], *self._cut(rows).chunks, *chunks[last:]))
        runs = tuple(replace(run, left=run.left - len(part)) for run, part in zip(layout.runs, pieces, strict=True))
        self._become(replace(layout, base=base, runs=runs).with_folded(high))

    def _merge_runs(self) -> None:
        """Merges the newest runs if there are too many of a size."""
        runs = self._layout.runs
        number = to_merge([run.left for run in runs], max(LARGEST_RUN, self._layout.base.rows // 32))
        if number < 2:
            return
        kept = runs[:-number]
        frames = [self._table.slice(run.rows, run, LOWEST, None) for run in reversed(runs[-number:])]
        rows = self._newest(frames)
        if not kept and not self._layout.base.chunks:
            rows = rows.filter(~pl.col(DEAD))
        self._become(replace(self._layout, runs=(*kept, self._run(rows)) if len(rows) else kept))


def to_merge(sizes: Sequence[int], largest: int) -> int:
    """How many of the newest runs (at the end of `sizes`) should become one.

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
    """Which chunks of the base (from, up to) are folded next: one, or several small ones."""
    chunks = layout.base.chunks
    ahead = (number for number, chunk in enumerate(chunks) if layout.cursor == LOWEST or chunk.low >= layout.cursor)
    first = next(ahead, len(chunks))
    last, rows, size = first, 0, 0
    while last < len(chunks) and rows < most // 2 and size < CHUNK_BYTES // 2:
        rows, size, last = rows + chunks[last].rows, size + chunks[last].size, last + 1
    return first, last
