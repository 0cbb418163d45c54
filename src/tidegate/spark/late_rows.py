"""Rows at the ingress of relations and ops: late ones are recorded and dropped, the largest times are observed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tidegate.catalog.bus import OF_VIEW
from tidegate.circuit.model import Ingress, ObservedColumn, RejectedRows
from tidegate.core.columns import SHARD, WEIGHT
from tidegate.core.render import json_row
from tidegate.ir.specs import GatedAggregateSpec, KernelSpec, WindowAggregateSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import LATE, NO_TIME, Clock, Kernel, WatermarkValue
from tidegate.kernels.watermarks import passes
from tidegate.spark import blocks, codec
from tidegate.spark.blocks import Block


@dataclass
class Stats:
    """What a task reports to the driver: rows read, and the largest values of columns that move watermarks, per
    partition where the source has partitions."""

    rows_in: dict[str, int] = field(default_factory=dict)
    seen: dict[str, WatermarkValue] = field(default_factory=dict)
    shards: dict[str, dict[str, WatermarkValue]] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rows_in or self.seen or self.shards or self.events)

    def to_json(self) -> dict[str, Any]:
        return {"rows_in": self.rows_in, "seen": self.seen, "shards": self.shards, "events": self.events}

    def note(self, name: str, shard: str | None, value: WatermarkValue) -> None:
        """Record an observed value."""
        seen = self.seen if shard is None else self.shards.setdefault(name, {})
        seen[shard or name] = _larger(seen.get(shard or name), value)


@dataclass(frozen=True)
class Watch:
    """An ingress check as workers run it."""

    relation: str
    columns: tuple[str, ...]
    tests: tuple[WatermarkTest, ...]
    seen: tuple[ObservedColumn, ...]
    checks: tuple[tuple[str, str], ...] = ()
    row: str | None = None

    @staticmethod
    def of(door: Ingress) -> Watch:
        columns = tuple(column.name for column in door.columns)
        return Watch(door.relation, columns, door.tests, door.observed, door.checks, door.row)

    def renamed(self, number: int, column: str) -> Watch:
        """Return the check with one observed column renamed."""
        found = list(self.seen)
        found[number] = replace(found[number], column=column)
        return replace(self, seen=tuple(found))

    def look(self, rows: pl.DataFrame, clock: Clock, stats: Stats) -> list[Block]:
        """Observe the largest values of rows that are not late; return blocks of late rows and of row errors."""
        found, accepted = [], rows
        if self.relation.endswith(OF_VIEW) and rows.height:
            view = self.relation.removesuffix(OF_VIEW)
            stats.events[view] = stats.events.get(view, 0) + rows.height
        if self.checks and (wrong := self._wrong(rows)):
            found.append(Block(blocks.ERRORS, 0, "", json.dumps(wrong).encode()))
        for test in self.tests:
            late = passes(test, accepted, clock.watermarks)
            if late.any():
                found.append(self._record(accepted.filter(late), test, clock))
                accepted = accepted.filter(~late)
        came = accepted.filter(pl.col(WEIGHT) > 0)
        for shard, rows in _by_shard(came):
            for seen in self.seen:
                value = largest(rows[seen.column], _latest(seen, clock))
                if value is not None:
                    stats.note(seen.name, shard, value)
        return found

    def _wrong(self, rows: pl.DataFrame) -> list[list[str]]:
        found: list[list[str]] = []
        for column, code in self.checks:
            bad = rows.filter(pl.col(column).is_not_null()).select(column, self.row or column)
            found += [[self.relation.removesuffix(OF_VIEW), code, words, row] for words, row in bad.iter_rows()]
        return found

    def _record(self, rows: pl.DataFrame, test: WatermarkTest, clock: Clock) -> Block:
        whole = tuple((name, name) for name in self.columns)
        return late_block(
            rows,
            RejectedRows(self.relation, (), test.column, test.watermark, whole),
            clock.watermarks.get(test.watermark),
        )


def _by_shard(rows: pl.DataFrame) -> Iterable[tuple[str | None, pl.DataFrame]]:
    """The rows of each partition of their source; all of them under None if it has none."""
    if SHARD not in rows.columns:
        return [(None, rows)]
    parts = rows.partition_by(SHARD, as_dict=True)
    return [(str(shard), part) for (shard,), part in parts.items()]


def drop_late(rows: pl.DataFrame, tests: Sequence[WatermarkTest], clock: Clock) -> pl.DataFrame:
    """Drop late rows, and the columns that only the tests needed."""
    for test in tests:
        late = passes(test, rows, clock.watermarks)
        rows = rows.filter(~late) if late.any() else rows
    return rows.drop([test.column for test in tests])


def admit(
    kernel: Kernel, spec: KernelSpec, port: int, rows: pl.DataFrame, refusal: RejectedRows, clock: Clock
) -> tuple[pl.DataFrame, list[Block]]:
    """Split rows into those that an op accepts, and records of those it rejects."""
    found: list[Block] = []
    verdict = kernel.classify(port, rows, clock)
    if verdict is not None and (verdict != 0).any():
        late, timeless = rows.filter(verdict == LATE), rows.filter((verdict == NO_TIME) & (rows[WEIGHT] > 0))
        if late.height:
            found.append(late_block(late, refusal, clock.watermarks.get(refusal.watermark)))
        if timeless.height:
            found.append(_timeless(timeless, refusal))
        rows = rows.filter(verdict == 0)
    return rows if classifies_by_state(spec) else rows.drop(list(refusal.carried)), found


def classifies_by_state(spec: KernelSpec) -> bool:
    """True if a kernel needs its state to tell which rows are late, so that rows stay whole until then."""
    match spec:
        case GatedAggregateSpec(inner=inner):
            return classifies_by_state(inner)
        case WindowAggregateSpec(window=window):
            return window.kind == "session"
    return False


def late_block(rows: pl.DataFrame, refusal: RejectedRows, waterline: WatermarkValue) -> Block:
    """A block of late rows with the fields of their record."""
    said = {
        "relation": refusal.relation,
        "views": refusal.views,
        "column": refusal.column,
        "line": refusal.watermark,
        "waterline": waterline,
    }
    row = [pl.col(column).alias(name) for name, column in refusal.row]
    return Block(blocks.LATE, 0, json.dumps(said), codec.encode(rows.select(*row, WEIGHT)))


def _timeless(rows: pl.DataFrame, refusal: RejectedRows) -> Block:
    message = f"{refusal.column} is NULL, so the row belongs to no window and is never released"
    found = [
        [refusal.relation, "NULL_TIME", message, row_text(row, refusal.row)]
        for row in rows.iter_rows(named=True)
        for _ in range(row[WEIGHT])
    ]
    return Block(blocks.ERRORS, 0, "", json.dumps(found).encode())


def row_text(row: dict[str, Any], columns: Sequence[tuple[str, str]]) -> str:
    """A row as JSON."""
    return json_row({name: row[column] for name, column in columns})


def largest(column: pl.Series, limit: int | None) -> WatermarkValue:
    """Return the largest value as it is stored, None if there is none. Values beyond the limit do not count."""
    if column.dtype.is_decimal():
        value = column.max()
        return None if value is None else str(value)
    stored = column.to_physical()
    if stored.dtype.is_float():
        stored = stored.filter(stored.is_not_nan())
    if limit is not None:
        stored = stored.filter(stored <= limit)
    found = stored.max()
    return found if isinstance(found, int | float) else None


def _latest(seen: ObservedColumn, clock: Clock) -> int | None:
    """The limit that `max_ahead` puts on a time, relative to the processing clock."""
    return None if seen.max_ahead is None else clock.time_us + seen.max_ahead


def _larger(left: WatermarkValue, right: WatermarkValue) -> WatermarkValue:
    from tidegate.spark.watermarks import larger

    return larger(left, right)
