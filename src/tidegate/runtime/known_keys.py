"""The keys that append-only tables have: an INSERT of one of them is refused at once, since the content is known."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from tidegate.catalog.relation import Relation
from tidegate.core.zset import frame_of
from tidegate.errors import make
from tidegate.kernels.frames import describe_row
from tidegate.runtime.contents import Contents
from tidegate.storage.insert_log import InsertLog


class _Known(NamedTuple):
    """The keys of a table, up to an entry of the insert log."""

    head: int
    keys: pl.DataFrame


class KnownKeys:
    """Finds keys that a table has already, in its content and in rows that no step has read. Keys are kept in memory,
    so an INSERT reads only what was inserted since the one before."""

    def __init__(self, contents: Contents, inserts: InsertLog) -> None:
        self._contents, self._inserts = contents, inserts
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def check(self, relation: Relation, rows: pa.Table, earlier: Sequence[pa.Table]) -> None:
        """Raise APPEND_ONLY if rows have a key that the table has, or that a row before them has. `earlier`: rows of
        the same batch."""
        keys = list(relation.primary_key)
        given = frame_of(pa.concat_tables([*earlier, rows])).select(keys).drop_nulls()
        if not given.height or any(kind.is_nested() for kind in given.dtypes):
            return
        repeated = given.filter(given.is_duplicated())
        with self._lock:
            if not repeated.height and self._present(relation, given, fresh=False).height:
                # A row that was refused, because it was late, is known, and not in the table.
                repeated = self._present(relation, given, fresh=True)
        if repeated.height:
            found = f"it has a row with {describe_row(repeated.row(0, named=True), keys)} already"
            raise make("APPEND_ONLY", relation=relation.name, found=found)

    def _present(self, relation: Relation, given: pl.DataFrame, fresh: bool) -> pl.DataFrame:
        known = None if fresh else self._known.get(relation.name)
        known = self._read(relation) if known is None or self._inserts.first() > known.head else known
        self._known[relation.name] = known = self._advanced(relation, known)
        if dict(known.keys.schema) != dict(given.schema):
            return self._present(relation, given, fresh=True) if not fresh else given.clear()
        return known.keys.join(given, on=given.columns, how="semi")

    def _read(self, relation: Relation) -> _Known:
        head = self._inserts.head()
        rows = frame_of(self._contents.keys_with_pending(relation))
        return _Known(head, rows.select(list(relation.primary_key)))

    def _advanced(self, relation: Relation, known: _Known) -> _Known:
        """The keys with those that were inserted since."""
        head = self._inserts.head()
        new = [
            frame_of(part.table).select(known.keys.columns)
            for _, _, parts in self._inserts.entries(known.head, head, {relation.name})
            for part in parts
        ]
        return _Known(head, pl.concat([known.keys, *new], how="vertical_relaxed") if new else known.keys)
