"""The layout of a table: a base, newer runs over it, and how far the runs have been folded into the base.

Folding cycles through the hashes: the cursor is its current position, `cycle` the number of finished cycles. Rows that
the cursor has passed since a run was written are in the base already, and no longer count in the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidegate.kernels.state.chunks import ID_BYTES, Chunk, Sorted
from tidegate.kernels.state.sorting import LOWEST, Hashes, Mask, Position, not_below

_ENTRY = np.dtype([("id", f"V{ID_BYTES}"), *((name, "i8") for name in ("rows", "size", "h0", "w0", "h1", "w1"))])


@dataclass(frozen=True)
class Run:
    """Rows of one step, or of several merged, written when folding was at (`cycle`, `start`). `left` rows are not
    folded yet."""

    rows: Sorted
    cycle: int
    start: Position
    left: int


@dataclass(frozen=True)
class Layout:
    """A table between steps. `runs` are oldest first; `count` is the number of rows of the table; `within` names the
    hash column that orders rows of equal `__h`, if the table has one."""

    within: str | None = None
    base: Sorted = field(default_factory=Sorted)
    runs: tuple[Run, ...] = ()
    cycle: int = 0
    cursor: Position = LOWEST
    count: int = 0

    @property
    def above(self) -> int:
        """Rows in runs that are not in the base yet."""
        return sum(run.left for run in self.runs)

    def chunks(self) -> Iterator[Chunk]:
        yield from self.base.chunks
        for run in self.runs:
            yield from run.rows.chunks

    def live(self, run: Run, hashes: Hashes, within: Hashes | None) -> Mask | None:
        """A mask of the positions that still count in `run`; None: all."""
        ahead = not_below(self.cursor, hashes, within)
        if run.cycle == self.cycle:
            return None if run.start == self.cursor else ahead | ~not_below(run.start, hashes, within)
        return ahead & ~not_below(run.start, hashes, within)

    def with_folded(self, end: Position | None) -> Layout:
        """The layout after folding has reached `end` (None: the end of the table, so that a new cycle begins)."""
        moved = replace(self, cursor=end) if end else replace(self, cursor=LOWEST, cycle=self.cycle + 1)
        return replace(moved, runs=tuple(run for run in moved.runs if moved._counts(run)))

    def _counts(self, run: Run) -> bool:
        passed = run.cycle + 1 < self.cycle or (run.cycle + 1 == self.cycle and self.cursor >= run.start)
        return run.left > 0 and not passed


def encode_layouts(layouts: Mapping[str, Layout]) -> bytes:
    """All tables of a bucket as one small blob: a line of JSON, then one fixed-size entry per chunk."""
    head = {name: _head(layout) for name, layout in layouts.items()}
    chunks = [chunk for layout in layouts.values() for chunk in layout.chunks()]
    entries = np.array([(c.id, c.rows, c.size, *c.low, *c.high) for c in chunks], dtype=_ENTRY)
    return json.dumps(head).encode() + b"\n" + entries.tobytes()


def decode_layouts(blob: bytes) -> dict[str, Layout]:
    head, _, entries = blob.partition(b"\n")
    chunks = (
        Chunk(id, rows, size, (h0, w0), (h1, w1))
        for id, rows, size, h0, w0, h1, w1 in np.frombuffer(entries, dtype=_ENTRY).tolist()
    )
    return {name: _layout(fields, chunks) for name, fields in json.loads(head).items()}


def _head(layout: Layout) -> dict[str, Any]:
    runs = [(len(run.rows.chunks), run.cycle, run.start, run.left) for run in layout.runs]
    at = (layout.cycle, layout.cursor)
    parts = {"base": len(layout.base.chunks), "runs": runs}
    return {"within": layout.within, **parts, "at": at, "count": layout.count}


def _layout(head: dict[str, Any], chunks: Iterator[Chunk]) -> Layout:
    def take(number: int) -> Sorted:
        return Sorted(tuple(next(chunks) for _ in range(number)))

    base = take(head["base"])
    runs = tuple(Run(take(number), cycle, tuple(start), left) for number, cycle, start, left in head["runs"])
    cycle, cursor = head["at"]
    return Layout(head["within"], base, runs, cycle, tuple(cursor), head["count"])
