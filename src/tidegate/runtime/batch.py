"""A batch: changes of several relations that become one atomic entry of the insert log, and so one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.bus import BUS, documents_as_text
from tidegate.catalog.relation import Relation
from tidegate.core.schema import Column, Schema, names
from tidegate.runtime.boundary import Boundary, public
from tidegate.runtime.python_values import excerpt
from tidegate.runtime.values import coerce
from tidegate.storage.insert_log import EntryHeader, InsertLog

Part = tuple[str, pa.Table, int]


class Batch:
    """Collects inserts and deletes. Nothing is written unless the `with` block ends without an error."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        log: InsertLog,
        boundary: Boundary,
        on_events: Callable[[], None] = lambda: None,
        marks: Mapping[str, str] | None = None,
        check_keys: Callable[[Relation, pa.Table, Sequence[pa.Table]], None] = lambda relation, rows, earlier: None,
    ) -> None:
        self._catalog, self._log, self._on_events, self._marks = catalog, log, on_events, marks
        self._check_keys = check_keys
        self.boundary = boundary
        self._parts: list[Part] = []
        self._advanced: dict[str, int | float | str] = {}

    @public
    def insert(self, relation: str, rows: Any) -> None:
        """Add rows: dicts, tuples, Arrow, Polars or pandas."""
        target = self._insertable(relation)
        rows = documents_as_text(rows) if target.name == BUS else rows
        table = coerce(rows, _with_null_keys(target.columns, target.primary_key))
        if target.append_only and target.primary_key:
            self._check_keys(target, table, [part for name, part, _ in self._parts if name == target.name])
        self._parts.append((target.name, table, 1))

    @public
    def delete(self, relation: str, rows: Any) -> None:
        """Delete rows: whole rows of a bag, rows with the same key of a keyed table."""
        target = self._deletable(relation)
        columns = _with_null_keys(target.columns, names(target.columns) if target.primary_key else ())
        self._parts.append((target.name, coerce(rows, columns), -1))

    @public
    def tombstone(self, relation: str, keys: Sequence[Any]) -> None:
        """Delete the rows of a keyed table that have these keys (tuples of the key columns)."""
        target = self._deletable(relation)
        if not target.primary_key:
            raise errors.make(
                "NOT_SUPPORTED", message=f"{target.name} has no primary key, so a row cannot be deleted by its key"
            )
        width = len(target.primary_key)
        rows_of_keys = isinstance(keys, Sequence) and all(isinstance(each, tuple | list) for each in keys)
        if not rows_of_keys or any(len(each) != width for each in keys):
            expected = f"a list of tuples of {', '.join(target.primary_key)}"
            raise errors.make("INVALID_ARGUMENT", name="keys", value=excerpt(keys), expected=expected)
        rows = [dict(zip(target.primary_key, key, strict=True)) for key in keys]
        columns = _with_null_keys(target.columns, names(target.columns))
        self._parts.append((target.name, coerce(rows, columns), -1))

    @public
    def advance(self, column: str, value: Any) -> None:
        """Move the watermark of `relation.column`, after the step of this batch."""
        relation, field = self._watermark_column(column)
        table = coerce([{field.name: value}], (replace(field, nullable=False),))
        self._advanced[f"{relation.name}.{field.name}"] = _stored(table.column(0)[0])

    def add(self, relation: str, table: pa.Table, weight: int) -> None:
        """Add rows that have the exact types of the relation."""
        self._parts.append((relation, table, weight))

    @public
    def commit(self) -> int | None:
        """Write the entry; returns its number, None if there was nothing to write."""
        parts = [part for part in self._parts if part[1].num_rows]
        header = EntryHeader(advance=self._advanced) if self._advanced else None
        self._parts, self._advanced = [], {}
        if any(relation == BUS for relation, _, _ in parts):
            self._on_events()
        return self._log.append(parts, header, self._marks) if parts or header else None

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def _watermark_column(self, path: str) -> tuple[Relation, Column]:
        """The relation and column of `relation.column`, which must have a watermark."""
        name, dot, column_name = path.rpartition(".")
        if not dot:
            raise errors.make(
                "SYNTAX_ERROR", message=f"'{path}' names no column", hint=f"write relation.column, such as {path}.ts"
            )
        relation = self._catalog().get(name)
        column = relation.column(column_name)
        if column is None:
            hint = errors.did_you_mean(column_name, names(relation.columns), "columns")
            raise errors.make("UNKNOWN_COLUMN", name=column_name, hint=hint)
        if not any(note.column == column.name for note in relation.times):
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation.name}.{column.name} has no watermark to advance",
                hint=f"declare one: WATERMARK FOR {column.name}, in CREATE {relation.kind.upper()} {relation.name}",
            )
        return relation, column

    def _insertable(self, name: str) -> Relation:
        relation = self._catalog().get(name)
        if relation.kind not in ("source", "table"):
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation.name} is a {relation.described}; rows go into sources and tables",
            )
        if relation.connector is not None:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation.name} is fed by {relation.connector.kind.upper()}, not by INSERT",
                hint=f"insert into a {relation.kind} that is declared without a connector",
            )
        return relation

    def _deletable(self, name: str) -> Relation:
        relation = self._insertable(name)
        if relation.kind == "source" or relation.append_only:
            reason = "a source" if relation.kind == "source" else "append_only"
            raise errors.make(
                "APPEND_ONLY",
                message=f"{relation.name} is {reason}: its rows cannot be deleted",
                hint=f"declare it as CREATE TABLE {relation.name} (...) without append_only to delete from it",
            )
        return relation


def _stored(value: pa.Scalar) -> int | float | str:
    """A value as watermarks store it: microseconds, days, a number, the digits of a decimal."""
    if pa.types.is_timestamp(value.type):
        return int(value.cast(pa.timestamp("us", value.type.tz)).value)
    if pa.types.is_date(value.type):
        return int(value.cast(pa.int32()).as_py())
    plain = value.as_py()
    return plain if isinstance(plain, int | float) else str(plain)


def _with_null_keys(columns: Schema, free: tuple[str, ...]) -> Schema:
    """The columns with some of them nullable. A row without a key is rejected by its table and recorded in
    `system.errors`, not by the call; and a delete needs no more than the key."""
    return tuple(replace(column, nullable=True) if column.name in free else column for column in columns)
