"""The state of one bucket: its tables, read at the start of a step and committed at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.kernels.api import Segments
from tidegate.kernels.state.chunks import CACHE, Chunk, ChunkCache, Chunks
from tidegate.kernels.state.compaction import settle
from tidegate.kernels.state.layout import Layout, decode_layouts, encode_layouts
from tidegate.kernels.state.sorting import DEAD
from tidegate.kernels.state.table import RunTable


@dataclass
class MemorySegments:
    """Named blobs in a dict. `calls` and `traffic` count the calls and the bytes read or written."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    calls: int = 0
    traffic: int = 0

    def get(self, name: str) -> bytes | None:
        blob = self.blobs.get(name)
        self._count(blob)
        return blob

    def put(self, name: str, blob: bytes) -> None:
        self._count(blob)
        self.blobs[name] = blob

    def delete(self, name: str) -> None:
        self._count(None)
        self.blobs.pop(name, None)

    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        for name in sorted(name for name in self.blobs if low <= name < high):
            self._count(self.blobs[name])
            yield name, self.blobs[name]

    def copy(self) -> MemorySegments:
        """An independent copy, to run a step twice from the same state."""
        return MemorySegments(dict(self.blobs))

    def _count(self, blob: bytes | None) -> None:
        self.calls += 1
        self.traffic += len(blob or b"")


META = "meta"
_ADDED = frozenset({WEIGHT, SEQ, "__t", "__key", "__start", "__end", "__known", "__first_at", "__last_at"})


class Store:
    """The tables of one bucket during one step: reads the index once at the start and writes it once at the commit.

    Nothing is stored before the commit, and reads return the state before the step.
    """

    def __init__(self, segments: Segments, cache: ChunkCache = CACHE) -> None:
        self._segments = segments
        self._chunks = Chunks(segments, cache)
        self._tables: dict[str, RunTable] = {}
        blob = segments.get(META)
        self._layouts = decode_layouts(blob) if blob else {}

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], ident: Sequence[str], within: str | None = None
    ) -> RunTable:
        if name not in self._tables:
            layout = self._layouts.get(name, Layout(within))
            self._tables[name] = RunTable(self._chunks, layout, columns, ident, within)
        return self._tables[name]

    def find_table(self, name: str, ident: Sequence[str] | None) -> RunTable | None:
        """A table with its stored columns; None if nothing is stored. Without `ident`, rows are identified by all
        columns but hashes and those that a step adds."""
        if name in self._tables:
            return self._tables[name]
        layout = self._layouts.get(name, Layout())
        chunk = next(layout.chunks(), None)
        if chunk is None:
            return None
        schema = self._chunks.load(chunk, layout.within).frame.schema
        columns = {name: dtype for name, dtype in schema.items() if name not in (HASH, DEAD, layout.within)}
        plain = [name for name in columns if not name.startswith(HASH) and name not in _ADDED]
        return self.table(name, columns, plain if ident is None else ident, layout.within)

    @property
    def fresh(self) -> bool:
        """True if nothing was ever committed."""
        return not self._layouts

    def commit(self) -> None:
        """Stores the writes of all tables."""
        before = _chunks(self._layouts)
        for table in self._tables.values():
            settle(table, self._chunks)
        layouts = {**self._layouts, **{name: table.layout for name, table in self._tables.items()}}
        after = _chunks(layouts)
        if after.keys() == before.keys():
            return
        self._chunks.flush(after.values(), [chunk for id, chunk in before.items() if id not in after])
        self._segments.put(META, encode_layouts(layouts))
        self._layouts = layouts

    @property
    def groups(self) -> int:
        """The number of groups of a GROUP BY, as of the last commit."""
        return sum(self._layouts[name].count for name in ("groups", "groups_by_time") if name in self._layouts)

    def stats(self) -> tuple[int, int]:
        """Rows and bytes in memory of all tables, as of the last commit."""
        rows = sum(layout.count for layout in self._layouts.values())
        return rows, sum(chunk.size for chunk in _chunks(self._layouts).values())


def _chunks(layouts: Mapping[str, Layout]) -> dict[bytes, Chunk]:
    return {chunk.id: chunk for layout in layouts.values() for chunk in layout.chunks()}
