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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT
from tidegate.core.files import write_atomically
from tidegate.kernels.refusals import row_json
from tidegate.storage import container
from tidegate.storage.container import Part
from tidegate.storage.folder import Folder

INDEX = "relations.json"
SNAPSHOT_ROWS = 20_000
FOLDED = 8
"""How many times the content may be read to find it, before a snapshot is worth it."""
EMPTY_STEP: dict[str, Any] = {}


@dataclass(frozen=True)
class StepRecord:
    """One step as it is logged. `changes`: visible columns, `__op`, `__w`; `blobs`: files of further changes, each with
    how many it has and by how many rows the relation grows; without the latter all are insertions."""

    step: int
    header: dict[str, Any]
    changes: dict[str, pa.Table]
    blobs: dict[str, list[list[Any]]] = field(default_factory=dict)


class StepLog:
    """The log of one data folder, for its writer or for a reader in another process."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._headers: dict[int, dict[str, Any]] = {}
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
                self._headers[step] = container.read_header(self._path(step))

    def last(self) -> int:
        """The newest step, 0 before the first."""
        with self._lock:
            return max(self._headers) if self._headers else self._compacted()

    def oldest(self) -> int:
        """The oldest step that content can still be asked for."""
        return max(self._compacted(), 0)

    def header(self, step: int) -> dict[str, Any]:
        with self._lock:
            return self._headers.get(step, EMPTY_STEP)

    def headers(self) -> list[tuple[int, dict[str, Any]]]:
        with self._lock:
            return sorted(self._headers.items())

    def late(self, header: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The record of each late row of a step, for each view that refused it."""
        yield from header["late"]
        for said in header.get("late_files", ()):
            yield from late_records(said, pl.read_ipc_stream((self._folder.blobs / said["name"]).read_bytes()))

    def write(self, record: StepRecord) -> None:
        """Writes a step durably and wakes whoever waits for it."""
        parts = [Part(name, table, {"net": _net(table)}) for name, table in record.changes.items()]
        header = {**record.header, "step": record.step, "blobs": record.blobs}
        container.write(self._path(record.step), header, parts)
        with self._lock:
            self._headers[record.step] = container.read_header(self._path(record.step))
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
        for step, header in self.headers():
            if start < step <= end and self._touches(header, relation):
                yield step, self._table(step, header, relation)

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
        for rows, gained in (counts for header in headers for counts in _counts(header, relation)):
            changed, net = changed + rows, net + gained
        self._changed[relation] = (base, last, changed, net)
        return changed, net

    def count(self, relation: str, as_of: int | None = None) -> int:
        """How many rows a relation has, without reading them."""
        end = self.last() if as_of is None else as_of
        base, path = self._snapshot_step(relation, end)
        counted = 0 if path is None else self._size(path)
        return counted + sum(
            net for step, header in self.headers() if base < step <= end for _, net in _counts(header, relation)
        )

    def _size(self, path: Path) -> int:
        """The number of rows in a snapshot, which is read but once for that."""
        if path not in self._sizes:
            self._sizes[path] = _row_count(path)
        return self._sizes[path]

    def _drop(self, step: int) -> None:
        header = self._headers.pop(step)
        for names in header.get("blobs", {}).values():
            for name, *_ in names:
                (self._folder.blobs / name).unlink(missing_ok=True)
        for said in header.get("late_files", ()):
            (self._folder.blobs / said["name"]).unlink(missing_ok=True)
        self._path(step).unlink(missing_ok=True)

    def _forget_snapshots(self, relation: str, limit: int) -> None:
        for path in self._view(relation).glob("*.arrow"):
            if int(path.stem) < limit:
                path.unlink(missing_ok=True)
                self._sizes.pop(path, None)

    def _touches(self, header: dict[str, Any], relation: str) -> bool:
        return relation in header["blobs"] or any(part["name"] == relation for part in header["parts"])

    def _table(self, step: int, header: dict[str, Any], relation: str) -> pa.Table:
        _, parts = container.read(self._path(step), {relation})
        tables = [part.table for part in parts]
        tables += [_spilled(self._folder.blobs / name) for name, *_ in header["blobs"].get(relation, [])]
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

    def _path(self, step: int) -> Path:
        return self._folder.steps / f"{step:012d}"


def counts(header: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """(relation, changes, rows gained) of one step, some relations several times."""
    yield from ((part["name"], part["rows"], part.get("net", 0)) for part in header["parts"])
    yield from ((name, file[1], file[-1]) for name, files in header["blobs"].items() for file in files)


def late_count(header: Mapping[str, Any]) -> int:
    """How many records of late rows a step has."""
    return len(header["late"]) + sum(int(said["count"]) for said in header.get("late_files", ()))


def late_records(said: Mapping[str, Any], rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """One record per late row and view that refused it."""
    names = [name for name in rows.columns if name != WEIGHT]
    for row in rows.iter_rows(named=True):
        text = row_json({name: row[name] for name in names})
        for view in (list(said["views"]) or [None]) * abs(row[WEIGHT]):
            yield {
                "relation": said["relation"],
                "view": view,
                "op": "+I" if row[WEIGHT] > 0 else "-D",
                "column": said["column"],
                "row": text,
                "waterline": said["waterline"],
            }


def _net(table: pa.Table) -> int:
    return int(pc.sum(table.column(WEIGHT)).as_py() or 0)


def _counts(header: dict[str, Any], relation: str) -> Iterator[tuple[int, int]]:
    """(changes, rows gained) of a relation in one step."""
    yield from ((rows, net) for name, rows, net in counts(header) if name == relation)


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
