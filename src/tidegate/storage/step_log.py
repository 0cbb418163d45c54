"""The step log: the changes of each relation, step by step. Queries, subscribers and sinks read nothing else.

`steps/<n>` is one container per step: the changes of every relation that changed, with counters and rejected rows. The
content of a relation is its newest snapshot and later changes. A step that is run again overwrites itself.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import errors
from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT
from tidegate.core.zset import frame_of
from tidegate.storage import blobs, container
from tidegate.storage.container import Part
from tidegate.storage.documents import MISSING, damaged
from tidegate.storage.objects import Storage
from tidegate.storage.snapshots import Snapshots
from tidegate.storage.state import STATE, Manifest, object_name
from tidegate.storage.step_header import Changes, LateRow, StepHeader

BLOBS, STEPS = "blobs", "steps"
SNAPSHOT_ROWS = 20_000
MAX_FOLD = 8
"""A snapshot is written when a read folds more than this many times the rows that it returns."""
STATE_PART = "\0state"
"""The part of a step's container with its manifest; no relation can have this name."""
LEAST_KEPT = 2
"""The newest step may run again, from the state after the one before it."""
BEFORE_FIRST = StepHeader.empty(0)
NO_STATE = Manifest()


@dataclass(frozen=True)
class StepRecord:
    """One step as it is logged. `changes`: the changed rows of each relation with `__op` and `__w`. The header need not
    name them: the log does. `state`: the state of all ops after the step."""

    header: StepHeader
    changes: Mapping[str, pa.Table]
    state: Manifest = NO_STATE


class StepLog:
    """The log of one data folder, for its writer or for a reader in another process."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._snapshots = storage, Snapshots(storage)
        self._headers: dict[int, StepHeader] = {}
        self._changed: dict[str, tuple[int, int, int, int]] = {}
        self._late_counts: dict[int, tuple[StepHeader, int]] = {}
        self._lock = threading.RLock()
        self.arrived = threading.Condition()

    def refresh(self) -> None:
        """Load the headers of steps that were written since, and drop those of steps that were compacted."""
        with self._lock:
            present = self._present()
            for step in self._headers.keys() - present:
                del self._headers[step]
            for step in sorted(present - self._headers.keys()):
                self._load_header(step)

    def _load_header(self, step: int) -> None:
        """Read the header of a step, unless another process has compacted it meanwhile."""
        try:
            self._headers[step] = _read_header(self._storage, step)
        except errors.Error:
            if step in self._present():
                raise

    def _present(self) -> set[int]:
        return {int(name) for name in self._storage.list(STEPS) if name.isdigit()}

    def check(self, committed: int = 0) -> None:
        """Raises FOLDER_DAMAGED if a step, a snapshot or a blob is missing. `committed`: the last step that Spark has
        committed."""
        index, last = self._snapshots.index(), max(self.last(), committed)
        for step in range(index.compacted + 1, last + 1):
            if step not in self._headers:
                raise damaged(self._storage.location(_step_name(step)), MISSING)
        for name in self.referenced():
            if self._storage.size(name) is None:
                raise damaged(self._storage.location(name), MISSING)

    def referenced(self) -> set[str]:
        """The names of all blobs and snapshots that belong to the log."""
        blobs = {f"{BLOBS}/{name}" for header in self.headers() for name in header.blobs()}
        return self._snapshots.names() | blobs | self.state_objects()

    def steps_with_state(self) -> list[int]:
        """The steps whose state is kept: the newest, and the one before it, which the newest is run again from."""
        return sorted(self._present())[-LEAST_KEPT:]

    def sweep_state(self) -> None:
        """Remove objects that belong to no step: those of tasks that failed, or ran twice. No step may be running."""
        needed = self.state_objects()
        for name in self._storage.list(STATE):
            if object_name(name) not in needed:
                self._storage.delete(object_name(name))

    def state_objects(self) -> set[str]:
        """The names of all objects of state that a step can need."""
        return {object_name(name) for step in self.steps_with_state() for name in self.state(step).sizes}

    def last(self) -> int:
        """The newest step, 0 before the first."""
        with self._lock:
            return max(self._headers) if self._headers else self._snapshots.index().compacted

    def oldest(self) -> int:
        """The oldest step for which content can be read."""
        return self._snapshots.index().compacted

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
            yield from file.rows(frame_of(blobs.read_rows(self._storage, f"{BLOBS}/{file.name}")))

    def late_count(self, header: StepHeader) -> int:
        """The number of rows that were late in a step, each once however many views dropped it."""
        known = self._late_counts.get(header.step)
        if known is None or known[0] is not header:
            count = sum(self._late_count(header, relation) for relation in header.late_relations())
            known = self._late_counts[header.step] = (header, count)
        return known[1]

    def _late_count(self, header: StepHeader, relation: str) -> int:
        files = [file for file in header.late_files if file.relation == relation]
        if len(files) == 1 and all(late.relation != relation for late in header.late):
            return files[0].count // max(1, len(files[0].views))
        own = (late for late in self.late(header) if late.relation == relation)
        dropped = Counter((late.view, late.op, late.row) for late in own)
        on_ingress = sum(count for (view, _, _), count in dropped.items() if view is None)
        most: Counter[tuple[str, str]] = Counter()
        for (view, *row), count in dropped.items():
            if view is not None:
                most[row[0], row[1]] = max(most[row[0], row[1]], count)
        return on_ingress + most.total()

    def write(self, record: StepRecord) -> None:
        """Write a step durably and wake all waiting readers."""
        weights = {name: frame_of(table.select([WEIGHT]))[WEIGHT] for name, table in record.changes.items()}
        counts = tuple(Changes(name, *zset.sizes(each)) for name, each in weights.items())
        header = replace(record.header, changes=counts)
        parts = [Part(STATE_PART, record.state.to_table())] if record.state.buckets else []
        parts += [Part(name, table) for name, table in record.changes.items()]
        self._storage.put(_step_name(header.step), *container.encode_all(header.to_json(), parts))
        with self._lock:
            before = self._headers.get(header.step, BEFORE_FIRST)
            self._headers[header.step] = header
        self._delete_blobs(set(before.blobs()) - set(header.blobs()))
        with self.arrived:
            self.arrived.notify_all()

    def truncate(self, after: int) -> None:
        """Remove steps that were logged but never committed."""
        with self._lock:
            for step in [number for number in self._headers if number > after]:
                self._drop(step)
            self._changed.clear()

    def add_state(self, step: int, state: Manifest) -> None:
        """Add the state to a step that was logged without, or replace it."""
        header, parts = container.read(self._storage, _step_name(step))
        changes = [part for part in parts if part.name != STATE_PART]
        self._storage.put(
            _step_name(step), *container.encode_all(header, [Part(STATE_PART, state.to_table()), *changes])
        )

    def state(self, step: int) -> Manifest:
        """The state of all ops after a step."""
        return read_state(self._storage, step)

    def changes(self, relation: str, start: int, end: int) -> Iterator[tuple[int, pa.Table]]:
        """(step, changes) of a relation for start < step <= end, oldest first, only steps in which it changed."""
        start = max(start, self.since(relation))
        for header in self.headers():
            if start < header.step <= end and header.changed(relation).rows:
                yield header.step, self._table(header, relation)

    def content(self, relation: str, schema: pa.Schema, as_of: int | None = None) -> pa.Table:
        """The rows of a relation after a step (the newest if none is given), each as often as its weight."""
        return zset.expand(self.weighted(relation, schema, as_of)).to_arrow().cast(schema)

    def weighted(self, relation: str, schema: pa.Schema, as_of: int | None = None) -> pl.DataFrame:
        """The content as a Z-set."""
        end = self.last() if as_of is None else as_of
        base_step, base = self._snapshots.read(relation, end)
        frames = [_empty(schema)] + ([base] if base is not None else [])
        frames += [_frame(table) for _, table in self.changes(relation, base_step, end)]
        if len(frames) == 1:
            return frames[0]
        return zset.consolidate(pl.concat(frames, how="vertical_relaxed"))

    def since(self, relation: str) -> int:
        """The step after which this relation began."""
        return self._snapshots.index().start_of(relation)

    def begin(self, relation: str, after: int) -> None:
        """Let the content of a relation begin after a step: it is new, or was replaced."""
        self._snapshots.update(lambda index: index.with_begin(relation, after))
        with self._lock:
            self._changed.pop(relation, None)

    def compact(self, schemas: dict[str, pa.Schema], keep: int, needed: int | None) -> None:
        """Fold steps older than the newest `keep` into snapshots and remove them, but none after `needed`: a sink has
        not read those yet."""
        limit = min(self.last() - max(keep, LEAST_KEPT), self.last() if needed is None else needed)
        if limit <= self._snapshots.index().compacted:
            return
        for relation, schema in schemas.items():
            self.snapshot(relation, schema, limit)
        obsolete = self._snapshots.compact(limit)
        with self._lock:
            for step in sorted(number for number in self._headers if number <= limit):
                self._drop(step)
        self._snapshots.delete(obsolete)

    def snapshot(self, relation: str, schema: pa.Schema, step: int) -> None:
        """Store the content after a step, so that later reads begin there."""
        self._snapshots.write(relation, self.weighted(relation, schema, step), schema, step)
        with self._lock:
            self._changed.pop(relation, None)

    def needs_snapshot(self, relation: str) -> bool:
        """True if a read of the content folds many times as many rows as it returns. It never does for a relation that
        only grows."""
        with self._lock:
            changed, net = self._changed_since_snapshot(relation)
            if changed <= SNAPSHOT_ROWS:
                return False
            base = self._snapshots.size(self._snapshots.newest(relation, self.last())[1])
            return base + changed > MAX_FOLD * max(base + net, SNAPSHOT_ROWS)

    def _changed_since_snapshot(self, relation: str) -> tuple[int, int]:
        """The number of changes after the newest snapshot, and of rows that they add. A step is counted only once."""
        last = self.last()
        start = (self._snapshots.newest(relation, last)[0], 0, 0, 0)
        base, end, changed, net = self._changed.get(relation) or start
        first = max(base, end)
        new = range(first + 1, last + 1) if last - first < len(self._headers) else sorted(self._headers)
        headers = (self._headers[step] for step in new if step > first and step in self._headers)
        for change in (header.changed(relation) for header in headers):
            changed, net = changed + change.rows, net + change.net
        self._changed[relation] = (base, last, changed, net)
        return changed, net

    def count(self, relation: str, as_of: int | None = None) -> int:
        """The number of rows of a relation, without reading them."""
        end = self.last() if as_of is None else as_of
        base, name = self._snapshots.newest(relation, end)
        return self._snapshots.size(name) + sum(
            header.changed(relation).net for header in self.headers() if base < header.step <= end
        )

    def _drop(self, step: int) -> None:
        """Remove a step: first its own file, so that no step names a blob that does not exist."""
        header = self._headers.pop(step)
        self._late_counts.pop(step, None)
        self._storage.delete(_step_name(step))
        self._delete_blobs(header.blobs())

    def _delete_blobs(self, names: Iterable[str]) -> None:
        for name in names:
            self._storage.delete(f"{BLOBS}/{name}")

    def _table(self, header: StepHeader, relation: str) -> pa.Table:
        _, parts = container.read(self._storage, _step_name(header.step), {relation})
        tables = [part.table for part in parts]
        tables += [
            _spilled(blobs.read_rows(self._storage, f"{BLOBS}/{file.name}")) for file in header.files_of(relation)
        ]
        return _retractions_first(pa.concat_tables([table.cast(tables[0].schema) for table in tables]))


def _read_header(storage: Storage, step: int) -> StepHeader:
    document = container.read_header(storage, _step_name(step))
    try:
        header = StepHeader.from_json(document)
    except ValueError as problem:
        raise damaged(storage.location(_step_name(step)), problem) from None
    if header.step != step:
        raise damaged(storage.location(_step_name(step)), f"it is step {header.step}")
    return header


def read_time(storage: Storage, step: int) -> int:
    """The processing time of a step in microseconds, 0 before the first."""
    return _read_header(storage, step).time_us if step else 0


def read_state(storage: Storage, step: int) -> Manifest:
    """The state of all ops after a step, none before the first."""
    table = container.read_part(storage, _step_name(step), STATE_PART) if step else None
    return NO_STATE if table is None else Manifest.from_table(table)


def _step_name(step: int) -> str:
    return f"{STEPS}/{step:012d}"


def _spilled(stored: pa.Table) -> pa.Table:
    """Changes that a worker wrote; without ops all are insertions."""
    rows = frame_of(stored)
    names = [name for name in rows.columns if name not in (OP, WEIGHT)]
    op = pl.col(OP) if OP in rows.columns else pl.lit("+I").alias(OP)
    return rows.select(*names, op, WEIGHT).to_arrow()


def _retractions_first(changes: pa.Table) -> pa.Table:
    """The changes of several parts with retractions before insertions, as they are in each part."""
    negative = pc.less(changes.column(WEIGHT), 0)
    if changes.column(WEIGHT).num_chunks < 2 or not pc.any(negative).as_py():
        return changes
    return pa.concat_tables([changes.filter(negative), changes.filter(pc.invert(negative))])


def _frame(table: pa.Table) -> pl.DataFrame:
    return frame_of(table).drop(OP)


def _empty(schema: pa.Schema) -> pl.DataFrame:
    return frame_of(schema.append(pa.field(WEIGHT, pa.int64())).empty_table())
