"""Snapshots: the content of a relation after a step, and the index that names them.

`views/<relation>.<n>.arrow` is the content after step n, if `views/relations.json` names it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from urllib.parse import quote

import polars as pl
import pyarrow as pa

from tidegate import errors
from tidegate.core.columns import WEIGHT
from tidegate.core.failpoints import failpoint
from tidegate.core.zset import frame_of, net_weight
from tidegate.storage import blobs, container, step_index
from tidegate.storage.objects import Storage
from tidegate.storage.step_index import StepIndex

VIEWS = "views"


class Snapshots:
    """The snapshots of one data folder. The index is read for every call: another process may write it."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._document = storage, step_index.document(storage)
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def index(self) -> StepIndex:
        return self._document.read()

    def update(self, change: Callable[[StepIndex], StepIndex]) -> None:
        """Replace the index by `change(index)`, durably."""
        with self._lock:
            self._document.update(change)

    def names(self) -> set[str]:
        """The files of all snapshots that the index names."""
        return {_name(relation, step) for relation, steps in self.index().snapshots.items() for step in steps}

    def newest(self, relation: str, end: int) -> tuple[int, str | None]:
        """The step and the file of the newest snapshot up to step `end`; if there is none, the step after which the
        relation begins."""
        index = self.index()
        since = index.start_of(relation)
        usable = [step for step in index.snapshots.get(relation, ()) if since <= step <= end]
        return (usable[-1], _name(relation, usable[-1])) if usable else (since, None)

    def read(self, relation: str, end: int) -> tuple[int, pl.DataFrame | None]:
        """The newest snapshot up to step `end`, as a Z-set. One that another process replaces meanwhile is looked up
        again."""
        step, name = self.newest(relation, end)
        while name is not None:
            try:
                return step, frame_of(blobs.read_rows(self._storage, name))
            except errors.Error:
                again = self.newest(relation, end)
                if again == (step, name):
                    raise
                step, name = again
        return step, None

    def write(self, relation: str, rows: pl.DataFrame, schema: pa.Schema, step: int) -> None:
        """Store a Z-set as the content of a relation after a step."""
        name = _name(relation, step)
        weighted = schema.append(pa.field(WEIGHT, pa.int64()))
        self._storage.put(name, *blobs.sealed(container.encode(rows.to_arrow().cast(weighted))))
        failpoint("snapshot.written")
        self.update(lambda index: index.with_snapshot(relation, step))
        self._sizes[name] = int(rows[WEIGHT].sum())

    def size(self, name: str | None) -> int:
        """The number of rows in a snapshot, 0 for none. The file is read only once for this."""
        if name is None:
            return 0
        if name not in self._sizes:
            self._sizes[name] = net_weight(blobs.read_rows(self._storage, name))
        return self._sizes[name]

    def compact(self, step: int) -> set[str]:
        """Record that steps up to `step` are compacted; returns the files that are no longer needed."""
        before = self.names()
        self.update(lambda index: index.with_compacted(step))
        return before - self.names()

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            self._storage.delete(name)
            self._sizes.pop(name, None)


def _name(relation: str, step: int) -> str:
    return f"{VIEWS}/{quote(relation, safe='')}.{step}.arrow"
