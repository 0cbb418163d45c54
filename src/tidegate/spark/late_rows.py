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
from tidegate.ir.windows import WatermarkTest, WindowSpec
from tidegate.kernels.api import LATE, NO_TIME, Clock, Kernel, WatermarkValue
from tidegate.kernels.watermarks import micros, passes, watermarks_for
from tidegate.kernels.windows import Grid
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
    def of(ingress: Ingress) -> Watch:
        columns = tuple(column.name for column in ingress.columns)
        return Watch(ingress.relation, columns, ingress.tests, ingress.observed, ingress.checks, ingress.row)

    def renamed(self, number: int, column: str) -> Watch:
        """Return the check with one observed column renamed."""
        seen = list(self.seen)
        seen[number] = replace(seen[number], column=column)
        return replace(self, seen=tuple(seen))

    def look(self, rows: pl.DataFrame, clock: Clock, stats: Stats) -> list[Block]:
        """Observe the largest values of rows that are not late; return blocks of late rows and of row errors."""
        records, accepted = [], rows
        if self.relation.endswith(OF_VIEW) and rows.height:
            view = self.relation.removesuffix(OF_VIEW)
            stats.events[view] = stats.events.get(view, 0) + rows.height
        if self.checks and (row_errors := self._row_errors(rows)):
            records.append(Block(blocks.ERRORS, 0, "", json.dumps(row_errors).encode()))
        for test in self.tests:
            late = passes(test, accepted, watermarks_for(clock, test.delayed))
            if late.any():
                records.append(self._record(accepted.filter(late), test, clock))
                accepted = accepted.filter(~late)
        insertions = accepted.filter(pl.col(WEIGHT) > 0)
        for shard, rows in _by_shard(insertions):
            for observed in self.seen:
                value = largest(rows[observed.column], _latest(observed, clock))
                if value is not None:
                    stats.note(observed.name, shard, value)
        return records

    def _row_errors(self, rows: pl.DataFrame) -> list[list[str]]:
        problems: list[list[str]] = []
        for column, code in self.checks:
            bad = rows.filter(pl.col(column).is_not_null()).select(column, self.row or column)
            problems += [[self.relation.removesuffix(OF_VIEW), code, words, row] for words, row in bad.iter_rows()]
        return problems

    def _record(self, rows: pl.DataFrame, test: WatermarkTest, clock: Clock) -> Block:
        columns = tuple((name, name) for name in self.columns)
        return late_block(
            rows,
            RejectedRows(self.relation, (), test.column, test.watermark, columns),
            watermarks_for(clock, test.delayed).get(test.watermark),
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
        late = passes(test, rows, watermarks_for(clock, test.delayed))
        rows = rows.filter(~late) if late.any() else rows
    return rows.drop([test.column for test in tests])


def admit(
    kernel: Kernel, spec: KernelSpec, port: int, rows: pl.DataFrame, rejected: RejectedRows, clock: Clock
) -> tuple[pl.DataFrame, list[Block]]:
    """Split rows into those that an op accepts, and records of those it rejects."""
    records: list[Block] = []
    classes = kernel.classify(port, rows, clock)
    if classes is not None and (classes != 0).any():
        late, timeless = rows.filter(classes == LATE), rows.filter((classes == NO_TIME) & (rows[WEIGHT] > 0))
        if rejected.windows is not None:
            late = late.filter(_in_last_window(late, rejected.windows))
        if late.height:
            records.append(late_block(late, rejected, clock.watermarks.get(rejected.watermark)))
        if timeless.height:
            records.append(_timeless(timeless, rejected))
        rows = rows.filter(classes == 0)
    return rows if classifies_by_state(spec) else rows.drop(list(rejected.carried)), records


def _in_last_window(rows: pl.DataFrame, window: WindowSpec) -> pl.Series:
    """A mask of the rows that are there with the last window of their time."""
    ends = Grid(window).last_ends(micros(rows[window.time]).to_numpy())
    return rows[window.end].to_physical() == pl.Series(ends)


def classifies_by_state(spec: KernelSpec) -> bool:
    """True if a kernel needs its state to tell which rows are late, so that rows stay whole until then."""
    match spec:
        case GatedAggregateSpec(inner=inner):
            return classifies_by_state(inner)
        case WindowAggregateSpec(window=window):
            return window.kind == "session"
    return False


def late_block(rows: pl.DataFrame, rejected: RejectedRows, watermark: WatermarkValue) -> Block:
    """A block of late rows with the fields of their record."""
    record = {
        "relation": rejected.relation,
        "views": rejected.views,
        "column": rejected.column,
        "watermark": rejected.watermark,
        "value": watermark,
    }
    row = [pl.col(column).alias(name) for name, column in rejected.row]
    return Block(blocks.LATE, 0, json.dumps(record), codec.encode(rows.select(*row, WEIGHT)))


def _timeless(rows: pl.DataFrame, rejected: RejectedRows) -> Block:
    message = f"{rejected.column} is NULL, so the row belongs to no window and is never released"
    errors = [
        [rejected.relation, "NULL_TIME", message, row_text(row, rejected.row)]
        for row in rows.iter_rows(named=True)
        for _ in range(row[WEIGHT])
    ]
    return Block(blocks.ERRORS, 0, "", json.dumps(errors).encode())


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
    value = stored.max()
    return value if isinstance(value, int | float) else None


def _latest(observed: ObservedColumn, clock: Clock) -> int | None:
    """The limit that `max_ahead` puts on a time, relative to the processing clock."""
    return None if observed.max_ahead is None else clock.time_us + observed.max_ahead


def _larger(left: WatermarkValue, right: WatermarkValue) -> WatermarkValue:
    from tidegate.spark.watermarks import larger

    return larger(left, right)
