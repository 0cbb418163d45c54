"""The step log: what left each relation, step by step. Queries, subscribers and sinks read nothing else.

`steps/<n>` is one container per step (the changes of every relation that changed, with its counters and refused rows);
`views/<relation>/<n>.arrow` is the content of a relation after step n. Content = newest snapshot + later changes.
A step that is run again overwrites itself.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT
from tidegate.core.files import write_atomically
from tidegate.storage import container
from tidegate.storage.container import Part
from tidegate.storage.folder import Folder
from tidegate.storage.step_header import Changes, LateRow, StepHeader

INDEX = "relations.json"
SNAPSHOT_ROWS = 20_000
FOLDED = 8
"""How many times the content may be read to find it, before a snapshot is worth it."""
BEFORE_FIRST = StepHeader.empty(0)


@dataclass(frozen=True)
class StepRecord:
    """One step as it is logged. `changes`: the changed rows of each relation with `__op` and `__w`. The header need not
    name them: the log does."""

    header: StepHeader
    changes: Mapping[str, pa.Table]


class StepLog:
    """The log of one data folder, for its writer or for a reader in another process."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._headers: dict[int, StepHeader] = {}
        self._changed: dict[str, tuple[int, int, int, int]] = {}
        self._sizes: dict[Path, int] = {}
        self._lock = threading.RLock()
        self.arrived = threading.Condition()

    def refresh(self) -> None:
        """Learns of steps that were written since, and forgets those that were compacted away."""
        with self._lock:
            present = {int(entry.name) for entry in os.scandir(self._folder.steps) if entry.name.isdigit()}
            for step in self._headers.keys() - present:
                del self._headers[step]
            for step in sorted(present - self._headers.keys()):
                self._headers[step] = self._read_header(step)

    def last(self) -> int:
        """The newest step, 0 before the first."""
        with self._lock:
            return max(self._headers) if self._headers else self._compacted()

    def oldest(self) -> int:
        """The oldest step that content can still be asked for."""
        return max(self._compacted(), 0)

    def header(self, step: int) -> StepHeader:
        """The header of a step; an empty one if the log does not have the step."""
        with self._lock:
            return self._headers.get(step, BEFORE_FIRST)

    def headers(self) -> list[StepHeader]:
        """The headers of all steps in the log, oldest first."""
        with self._lock:
            return [header for _, header in sorted(self._headers.items())]

    def late(self, header: StepHeader) -> Iterator[LateRow]:
        """The late rows of a step, each once for every view that dropped it."""
        yield from header.late
        for file in header.late_files:
            yield from file.rows(pl.read_ipc_stream((self._folder.blobs / file.name).read_bytes()))

    def write(self, record: StepRecord) -> None:
        """Writes a step durably and wakes whoever waits for it."""
        counted = tuple(Changes(name, table.num_rows, _net(table)) for name, table in record.changes.items())
        header = replace(record.header, changes=counted)
        parts = [Part(name, table, {}) for name, table in record.changes.items()]
        container.write(self._path(header.step), {"header": header.to_json()}, parts)
        with self._lock:
            self._headers[header.step] = header
        with self.arrived:
            self.arrived.notify_all()

    def truncate(self, after: int) -> None:
        """Takes back steps that were logged but never committed."""
        with self._lock:
            for step in [number for number in self._headers if number > after]:
                self._path(step).unlink(missing_ok=True)
                del self._headers[step]
            self._changed.clear()

    def changes(self, relation: str, start: int, end: int) -> Iterator[tuple[int, pa.Table]]:
        """(step, changes) of a relation for start < step <= end, oldest first, only steps in which it changed."""
        start = max(start, self.since(relation))
        for header in self.headers():
            if start < header.step <= end and header.changed(relation).rows:
                yield header.step, self._table(header, relation)

    def content(self, relation: str, schema: pa.Schema, as_of: int | None = None) -> pa.Table:
        """The rows of a relation after a step (the newest if none is given), each as often as it is there."""
        return zset.expand(self.weighted(relation, schema, as_of)).to_arrow().cast(schema)

    def weighted(self, relation: str, schema: pa.Schema, as_of: int | None = None) -> pl.DataFrame:
        """The content as a Z-set."""
        end = self.last() if as_of is None else as_of
        base_step, base = self._snapshot(relation, end)
        frames = [_empty(schema)] + ([base] if base is not None else [])
        frames += [_frame(table) for _, table in self.changes(relation, base_step, end)]
        if len(frames) == 1:
            return frames[0]
        return zset.consolidate(pl.concat(frames, how="vertical_relaxed"))

    def since(self, relation: str) -> int:
        """The step after which this relation began."""
        index: dict[str, int] = self._index().get("since", {})
        return index.get(relation, 0)

    def begin(self, relation: str, after: int) -> None:
        """From now on the relation's content counts from the steps after `after`: it is new, or begins anew."""
        self._update_index(lambda index: index.setdefault("since", {}).__setitem__(relation, after))
        with self._lock:
            self._changed.pop(relation, None)

    def compact(self, schemas: dict[str, pa.Schema], keep: int, needed: int | None) -> None:
        """Folds steps older than the newest `keep` into snapshots and removes them, but none after `needed`: a sink has
        not read those yet."""
        limit = min(self.last() - keep, self.last() if needed is None else needed)
        if limit <= self._compacted():
            return
        for relation, schema in schemas.items():
            self.snapshot(relation, schema, limit)
        self._update_index(lambda index: index.__setitem__("compacted", limit))
        with self._lock:
            for step in [number for number in self._headers if number <= limit]:
                self._drop(step)
        for relation in schemas:
            self._forget_snapshots(relation, limit)

    def snapshot(self, relation: str, schema: pa.Schema, step: int) -> None:
        """Stores the content after a step, so that later reads begin there."""
        rows = self.weighted(relation, schema, step)
        target = self._view(relation) / f"{step}.arrow"
        target.parent.mkdir(parents=True, exist_ok=True)
        weighted = schema.append(pa.field(WEIGHT, pa.int64()))
        write_atomically(target, container.encode(rows.to_arrow().cast(weighted)))
        with self._lock:
            self._changed.pop(relation, None)
            self._sizes[target] = int(rows[WEIGHT].sum())

    def needs_snapshot(self, relation: str) -> bool:
        """Whether a read of the content has to fold many times as many rows as it finds. Of a relation that only grows
        it never has."""
        with self._lock:
            changed, net = self._changed_since_snapshot(relation)
            if changed <= SNAPSHOT_ROWS:
                return False
            _, path = self._snapshot_step(relation, self.last())
            base = 0 if path is None else self._size(path)
            return base + changed > FOLDED * max(base + net, SNAPSHOT_ROWS)

    def _changed_since_snapshot(self, relation: str) -> tuple[int, int]:
        """How many changes there are after the newest snapshot, and how many rows they have brought. What was counted
        before is not counted again."""
        last = self.last()
        start = (self._snapshot_step(relation, last)[0], 0, 0, 0)
        base, upto, changed, net = self._changed.get(relation) or start
        first = max(base, upto)
        new = range(first + 1, last + 1) if last - first < len(self._headers) else sorted(self._headers)
        headers = (self._headers[step] for step in new if step > first and step in self._headers)
        for counted in (header.changed(relation) for header in headers):
            changed, net = changed + counted.rows, net + counted.net
        self._changed[relation] = (base, last, changed, net)
        return changed, net

    def count(self, relation: str, as_of: int | None = None) -> int:
        """How many rows a relation has, without reading them."""
        end = self.last() if as_of is None else as_of
        base, path = self._snapshot_step(relation, end)
        counted = 0 if path is None else self._size(path)
        return counted + sum(header.changed(relation).net for header in self.headers() if base < header.step <= end)

    def _size(self, path: Path) -> int:
        """The number of rows in a snapshot, which is read but once for that."""
        if path not in self._sizes:
            self._sizes[path] = _row_count(path)
        return self._sizes[path]

    def _drop(self, step: int) -> None:
        for name in self._headers.pop(step).blobs():
            (self._folder.blobs / name).unlink(missing_ok=True)
        self._path(step).unlink(missing_ok=True)

    def _forget_snapshots(self, relation: str, limit: int) -> None:
        for path in self._view(relation).glob("*.arrow"):
            if int(path.stem) < limit:
                path.unlink(missing_ok=True)
                self._sizes.pop(path, None)

    def _table(self, header: StepHeader, relation: str) -> pa.Table:
        _, parts = container.read(self._path(header.step), {relation})
        tables = [part.table for part in parts]
        tables += [_spilled(self._folder.blobs / file.name) for file in header.files_of(relation)]
        return _retractions_first(pa.concat_tables([table.cast(tables[0].schema) for table in tables]))

    def _snapshot_step(self, relation: str, end: int) -> tuple[int, Path | None]:
        since = self.since(relation)
        found = [(int(path.stem), path) for path in self._view(relation).glob("*.arrow")]
        usable = [(step, path) for step, path in found if since <= step <= end]
        return max(usable, default=(since, None))

    def _snapshot(self, relation: str, end: int) -> tuple[int, pl.DataFrame | None]:
        step, path = self._snapshot_step(relation, end)
        if path is None:
            return step, None
        return step, _as_frame(container.decode(pa.py_buffer(path.read_bytes())))

    def _compacted(self) -> int:
        return int(self._index().get("compacted", 0))

    def _index(self) -> dict[str, Any]:
        try:
            index: dict[str, Any] = json.loads((self._folder.views / INDEX).read_text())
        except FileNotFoundError:
            return {}
        return index

    def _update_index(self, change: Any) -> None:
        with self._lock:
            index = self._index()
            change(index)
            write_atomically(self._folder.views / INDEX, json.dumps(index).encode())

    def _view(self, relation: str) -> Path:
        return self._folder.views / quote(relation, safe="")

    def _read_header(self, step: int) -> StepHeader:
        return StepHeader.from_json(container.read_header(self._path(step))["header"])

    def _path(self, step: int) -> Path:
        return self._folder.steps / f"{step:012d}"


def _net(table: pa.Table) -> int:
    return int(pc.sum(table.column(WEIGHT)).as_py() or 0)


def _row_count(path: Path) -> int:
    """The number of rows in a snapshot: the sum of its weights."""
    return _net(container.decode(pa.py_buffer(path.read_bytes())))


def _as_frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _spilled(path: Path) -> pa.Table:
    """Changes that a worker wrote; without ops all are insertions."""
    rows = pl.read_ipc_stream(path.read_bytes())
    names = [name for name in rows.columns if name not in (OP, WEIGHT)]
    op = pl.col(OP) if OP in rows.columns else pl.lit("+I").alias(OP)
    return rows.select(*names, op, WEIGHT).to_arrow()


def _retractions_first(changes: pa.Table) -> pa.Table:
    """As they are in each part."""
    taken = pc.less(changes.column(WEIGHT), 0)
    if changes.column(WEIGHT).num_chunks < 2 or not pc.any(taken).as_py():
        return changes
    return pa.concat_tables([changes.filter(taken), changes.filter(pc.invert(taken))])


def _frame(table: pa.Table) -> pl.DataFrame:
    return _as_frame(table).drop(OP)


def _empty(schema: pa.Schema) -> pl.DataFrame:
    return _as_frame(schema.append(pa.field(WEIGHT, pa.int64())).empty_table())
