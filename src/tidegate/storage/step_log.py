"""The step log: what left each relation, step by step. Queries, subscribers and sinks read nothing else.

`steps/<n>` is one container per step (the changes of every relation that changed, with its counters and refused rows);
`views/<relation>.<n>.arrow` is the content of a relation after step n, if `views/relations.json` names it. Content =
newest snapshot + later changes. A step that is run again overwrites itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import errors
from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT
from tidegate.core.failpoints import failpoint
from tidegate.storage import blobs, container, step_index
from tidegate.storage.container import Part
from tidegate.storage.documents import MISSING, checked_read, damaged
from tidegate.storage.objects import Storage
from tidegate.storage.step_header import Changes, LateRow, StepHeader
from tidegate.storage.step_index import StepIndex

BLOBS, STEPS, VIEWS = "blobs", "steps", "views"
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

    def __init__(self, storage: Storage) -> None:
        self._storage, self._stored_index = storage, step_index.document(storage)
        self._headers: dict[int, StepHeader] = {}
        self._changed: dict[str, tuple[int, int, int, int]] = {}
        self._sizes: dict[str, int] = {}
        self._lock = threading.RLock()
        self.arrived = threading.Condition()

    def refresh(self) -> None:
        """Learns of steps that were written since, and forgets those that were compacted away."""
        with self._lock:
            present = self._present()
            for step in self._headers.keys() - present:
                del self._headers[step]
            for step in sorted(present - self._headers.keys()):
                self._load_header(step)

    def _load_header(self, step: int) -> None:
        """Reads the header of a step; one that another process has compacted away since is left out."""
        try:
            self._headers[step] = self._read_header(step)
        except errors.Error:
            if step in self._present():
                raise

    def _present(self) -> set[int]:
        return {int(name) for name in self._storage.list(STEPS) if name.isdigit()}

    def check(self, committed: int = 0) -> None:
        """Raises FOLDER_DAMAGED if a step, a snapshot or a blob is missing. `committed`: the last step that Spark has
        committed."""
        index, last = self._index(), max(self.last(), committed)
        for step in range(index.compacted + 1, last + 1):
            if step not in self._headers:
                raise damaged(self._storage.location(_step_name(step)), MISSING)
        for name in self.referenced():
            if self._storage.size(name) is None:
                raise damaged(self._storage.location(name), MISSING)

    def referenced(self) -> set[str]:
        """The names of all blobs and snapshots that belong to the log."""
        return self._snapshots() | {f"{BLOBS}/{name}" for header in self.headers() for name in header.blobs()}

    def last(self) -> int:
        """The newest step, 0 before the first."""
        with self._lock:
            return max(self._headers) if self._headers else self._index().compacted

    def oldest(self) -> int:
        """The oldest step that content can still be asked for."""
        return self._index().compacted

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
            yield from file.rows(_as_frame(self._blob(f"{BLOBS}/{file.name}")))

    def write(self, record: StepRecord) -> None:
        """Writes a step durably and wakes whoever waits for it."""
        counted = tuple(Changes(name, table.num_rows, _net(table)) for name, table in record.changes.items())
        header = replace(record.header, changes=counted)
        parts = [Part(name, table) for name, table in record.changes.items()]
        self._storage.put(_step_name(header.step), *container.encode_all(header.to_json(), parts))
        with self._lock:
            before = self._headers.get(header.step, BEFORE_FIRST)
            self._headers[header.step] = header
        self._delete_blobs(set(before.blobs()) - set(header.blobs()))
        with self.arrived:
            self.arrived.notify_all()

    def truncate(self, after: int) -> None:
        """Takes back steps that were logged but never committed."""
        with self._lock:
            for step in [number for number in self._headers if number > after]:
                self._drop(step)
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
        return self._index().began(relation)

    def begin(self, relation: str, after: int) -> None:
        """From now on the relation's content counts from the steps after `after`: it is new, or begins anew."""
        self._update_index(lambda index: index.with_begin(relation, after))
        with self._lock:
            self._changed.pop(relation, None)

    def compact(self, schemas: dict[str, pa.Schema], keep: int, needed: int | None) -> None:
        """Folds steps older than the newest `keep` into snapshots and removes them, but none after `needed`: a sink has
        not read those yet."""
        limit = min(self.last() - keep, self.last() if needed is None else needed)
        if limit <= self._index().compacted:
            return
        for relation, schema in schemas.items():
            self.snapshot(relation, schema, limit)
        before = self._snapshots()
        self._update_index(lambda index: index.with_compacted(limit))
        with self._lock:
            for step in sorted(number for number in self._headers if number <= limit):
                self._drop(step)
        for name in before - self._snapshots():
            self._storage.delete(name)
            self._sizes.pop(name, None)

    def snapshot(self, relation: str, schema: pa.Schema, step: int) -> None:
        """Stores the content after a step, so that later reads begin there."""
        rows = self.weighted(relation, schema, step)
        name = _snapshot_name(relation, step)
        weighted = schema.append(pa.field(WEIGHT, pa.int64()))
        self._storage.put(name, *blobs.sealed(container.encode(rows.to_arrow().cast(weighted))))
        failpoint("snapshot.written")
        self._update_index(lambda index: index.with_snapshot(relation, step))
        with self._lock:
            self._changed.pop(relation, None)
            self._sizes[name] = int(rows[WEIGHT].sum())

    def needs_snapshot(self, relation: str) -> bool:
        """Whether a read of the content has to fold many times as many rows as it finds. Of a relation that only grows
        it never has."""
        with self._lock:
            changed, net = self._changed_since_snapshot(relation)
            if changed <= SNAPSHOT_ROWS:
                return False
            _, name = self._snapshot_step(relation, self.last())
            base = 0 if name is None else self._size(name)
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
        base, name = self._snapshot_step(relation, end)
        counted = 0 if name is None else self._size(name)
        return counted + sum(header.changed(relation).net for header in self.headers() if base < header.step <= end)

    def _size(self, name: str) -> int:
        """The number of rows in a snapshot, which is read but once for that."""
        if name not in self._sizes:
            self._sizes[name] = _net(self._blob(name))
        return self._sizes[name]

    def _drop(self, step: int) -> None:
        """Removes a step: first its own file, so that no step is left that names a blob which is gone."""
        header = self._headers.pop(step)
        self._storage.delete(_step_name(step))
        self._delete_blobs(header.blobs())

    def _delete_blobs(self, names: Iterable[str]) -> None:
        for name in names:
            self._storage.delete(f"{BLOBS}/{name}")

    def _snapshots(self) -> set[str]:
        return {_snapshot_name(relation, step) for relation, steps in self._index().snapshots.items() for step in steps}

    def _table(self, header: StepHeader, relation: str) -> pa.Table:
        _, parts = container.read(self._storage, _step_name(header.step), {relation})
        tables = [part.table for part in parts]
        tables += [_spilled(self._blob(f"{BLOBS}/{file.name}")) for file in header.files_of(relation)]
        return _retractions_first(pa.concat_tables([table.cast(tables[0].schema) for table in tables]))

    def _snapshot_step(self, relation: str, end: int) -> tuple[int, str | None]:
        """The newest snapshot up to a step, or the step after which the relation began."""
        index = self._index()
        since = index.began(relation)
        usable = [step for step in index.snapshots.get(relation, ()) if since <= step <= end]
        return (usable[-1], _snapshot_name(relation, usable[-1])) if usable else (since, None)

    def _snapshot(self, relation: str, end: int) -> tuple[int, pl.DataFrame | None]:
        step, name = self._snapshot_step(relation, end)
        while name is not None:
            try:
                return step, _as_frame(self._blob(name))
            except errors.Error:
                again = self._snapshot_step(relation, end)
                if again == (step, name):
                    raise
                step, name = again
        return step, None

    def _blob(self, name: str) -> pa.Table:
        """The rows of a blob or snapshot; FOLDER_DAMAGED if it is not as it was written."""
        return checked_read(self._storage, name, lambda data: container.decode(blobs.unsealed(data)))

    def _index(self) -> StepIndex:
        return self._stored_index.read()

    def _update_index(self, change: Callable[[StepIndex], StepIndex]) -> None:
        with self._lock:
            self._stored_index.update(change)

    def _read_header(self, step: int) -> StepHeader:
        document = container.read_header(self._storage, _step_name(step))
        try:
            header = StepHeader.from_json(document)
        except ValueError as problem:
            raise damaged(self._storage.location(_step_name(step)), problem) from None
        if header.step != step:
            raise damaged(self._storage.location(_step_name(step)), f"it is step {header.step}")
        return header


def _step_name(step: int) -> str:
    return f"{STEPS}/{step:012d}"


def _snapshot_name(relation: str, step: int) -> str:
    return f"{VIEWS}/{quote(relation, safe='')}.{step}.arrow"


def _net(table: pa.Table) -> int:
    return int(pc.sum(table.column(WEIGHT)).as_py() or 0)


def _as_frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _spilled(stored: pa.Table) -> pa.Table:
    """Changes that a worker wrote; without ops all are insertions."""
    rows = _as_frame(stored)
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
