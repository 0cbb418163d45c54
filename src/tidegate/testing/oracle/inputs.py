"""Input relations: which rows a source or table accepts, and how views read them, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa

from tidegate.core.durations import CalendarInterval
from tidegate.core.schema import Schema
from tidegate.core.types import Type, nullable_schema, parse_type
from tidegate.testing.oracle.amounts import Number, minus
from tidegate.testing.oracle.bags import Change, Row, consolidate, row_identity, to_arrow
from tidegate.testing.oracle.inference import Watermark, Watermarks
from tidegate.testing.oracle.watermarks import InputTime

INSERT, DELETE, TOMBSTONE = "insert", "delete", "tombstone"


@dataclass(frozen=True)
class InputRow:
    """One row as a client writes it; the row of a tombstone consists of the key's values only."""

    action: str
    row: Row


@dataclass
class Input:
    """A source or a table. `rows` are its current rows (of a source: all rows ever), oldest first.

    `changes` are those of the last micro-batch, `late` all rows that were late on entry. `disorder`: a change has been
    below a watermark of the relation. `unknown` is the reason why the oracle cannot compute the content."""

    name: str
    columns: Schema
    source: bool
    key: tuple[str, ...] = ()
    append_only: bool = False
    time: InputTime = field(default_factory=InputTime)
    rows: list[Row] = field(default_factory=list)
    pending: list[InputRow] = field(default_factory=list)
    held_back: list[InputRow] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    disorder: bool = False
    unknown: str | None = None

    @cached_property
    def kinds(self) -> tuple[Type, ...]:
        return tuple(parse_type(column.type) for column in self.columns)

    def index(self, column: str) -> int:
        return [each.name.lower() for each in self.columns].index(column.lower())

    def write(self, rows: Iterable[InputRow]) -> None:
        """Queue rows for the next step."""
        self.pending.extend(rows)

    def step(self, clock: int = 0) -> bool:
        """Run one micro-batch: apply, in order, the rows that were written or are no longer held back. False if there
        were none."""
        written, self.pending = self.pending, []
        self.changes = []
        arrived, late = self._release(written), len(self.late)
        for row in arrived:
            self._apply(row)
        self.disorder |= len(self.late) > late or any(self.time.passed(row) for row, _ in self.changes)
        # The watermark of a keyed table sees only the last row of each key in a micro-batch.
        changes = consolidate(self.changes, self.kinds) if self.key else self.changes
        self.time.observe([row for row, weight in changes if weight > 0], clock, bool(arrived))
        return bool(written or arrived)

    @property
    def has_pending(self) -> bool:
        """True if the next micro-batch has rows of this input."""
        return bool(self.pending) or any(not self._holds(row) for row in self.held_back)

    def _release(self, written: list[InputRow]) -> list[InputRow]:
        if not self.time.hold_backs:
            return written
        rows = [*self.held_back, *written]
        self.held_back = [row for row in rows if self._holds(row)]
        released = [row for row in rows if not self._holds(row)]
        for each in written:
            for hold_back in self.time.hold_backs if each.action != TOMBSTONE else ():
                hold_back.observe(each.row[hold_back.column])
        return released

    def _holds(self, written: InputRow) -> bool:
        if self.key and written.action != INSERT:
            self.unknown = f"{self.name} holds back the deletes of keys"
            return False
        return any(hold_back.holds(written.row[hold_back.column]) for hold_back in self.time.hold_backs)

    def _apply(self, written: InputRow) -> None:
        if self.key:
            self._apply_keyed(written)
        elif self.time.late(written.row):
            self.late.append(written.row)
        elif self.source or written.action == INSERT:
            self._insert(written.row)
        else:
            self._delete(written.row)

    def _apply_keyed(self, written: InputRow) -> None:
        key = written.row if written.action == TOMBSTONE else self._key(written.row)
        if None in key:
            return
        old = [index for index, row in enumerate(self.rows) if self._same_key(self._key(row), key)]
        if written.action == INSERT and (self.append_only and old):
            return
        touched = [self.rows[index] for index in old] + ([written.row] if written.action == INSERT else [])
        if any(self.time.late(row) for row in touched):
            self.late.append(written.row)
            return
        for index in old:
            self._delete_at(index)
        if written.action == INSERT:
            self._insert(written.row)

    def _insert(self, row: Row) -> None:
        self.rows.append(row)
        self.changes.append((row, 1))

    def _delete_at(self, index: int) -> None:
        self.changes.append((self.rows[index], -1))
        del self.rows[index]

    def _delete(self, row: Row) -> None:
        identity = row_identity(row, self.kinds)
        index = next((i for i, each in enumerate(self.rows) if row_identity(each, self.kinds) == identity), None)
        if index is not None:
            self._delete_at(index)

    def _key(self, row: Sequence[object]) -> Row:
        return tuple(row[self.index(name)] for name in self.key)

    def _same_key(self, one: Row, other: Row) -> bool:
        kinds = [self.kinds[self.index(name)] for name in self.key]
        return row_identity(one, kinds) == row_identity(other, kinds)

    def watermarks(self) -> dict[int, Number | None]:
        """The current watermark of each column, by its index."""
        return {index: self.time.watermark(index) for index in range(len(self.columns))}


@dataclass(frozen=True)
class InputBatch:
    """One micro-batch of an input: its rows, what changed, and its watermarks before and after."""

    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    watermarks: tuple[dict[int, Number | None], dict[int, Number | None]]


class InputSource:
    """An input as a view reads it: of a source, only the rows from `start` on."""

    def __init__(self, relation: Input, start: int) -> None:
        self.name, self._input, self._start = relation.name.lower(), relation, start
        self.version = 0
        self.schema: pa.Schema = nullable_schema(relation.columns)
        self.kinds: tuple[Type, ...] = relation.kinds
        self._table: pa.Table | None = None
        self._batch = InputBatch(tuple(relation.rows), (), (relation.watermarks(), relation.watermarks()))

    @property
    def unknown(self) -> str | None:
        return self._input.unknown

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def changes(self) -> list[Change]:
        return consolidate(self._batch.changes, self.kinds)

    def enter(self, batch: InputBatch) -> None:
        """Begin the next micro-batch."""
        self._batch = batch
        if batch.changes:
            self.version += 1
            self._table = None

    def settle(self) -> None:
        """End the micro-batch: a view created now sees its rows, but no changes."""
        after = self._batch.watermarks[1]
        self._batch = InputBatch(self._batch.rows, (), (after, after))

    def rows(self) -> list[Row]:
        return list(self._batch.rows[self._start :])

    def table(self) -> pa.Table:
        if self._table is None:
            self._table = to_arrow(self.rows(), self.schema)
        return self._table

    def watermarks(self) -> Watermarks:
        time = self._input.time
        return {
            name.lower(): Watermark(partial(self._watermark, index), self.kinds[index], time.has_watermark_for(index))
            for index, name in enumerate(self.names)
            if time.has_watermark(index)
        }

    def _watermark(self, index: int, moment: int, lag: int) -> Number | None:
        value = self._batch.watermarks[moment][index]
        return value if value is None or not lag else minus(value, CalendarInterval(lag))
