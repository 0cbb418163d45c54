"""The envelopes plain, upsert and ops: a record is a row, a row that replaces its key, or a change with its op."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.core.columns import WEIGHT
from tidegate.core.quoting import identifier, literal
from tidegate.errors import Error, make
from tidegate.formats.avro_schema import failure
from tidegate.formats.contract import (
    FAULT,
    KEY,
    PART,
    ROW,
    VALUE,
    ChangeWriter,
    KeyWriter,
    Layout,
    Reader,
    Writer,
    finished,
    others,
    split,
)
from tidegate.formats.malformed import missing_text
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlainDecoder:
    """Inserts a row per record. A tombstone is an error: it has no row, and without a key nothing to delete."""

    layout: Layout
    reader: Reader

    def rows(self, frame: DataFrame) -> DataFrame:
        carried, columns = others(frame), self.layout.columns
        frame = self.reader.rows(frame)
        values = [f"{ROW}.{identifier(c.name)} AS {identifier(c.name)}" for c in columns]
        frame = frame.selectExpr("*", *values, f"1L AS {WEIGHT}", f"0 AS {PART}")
        tombstone = literal(
            f"the record has no value (a tombstone), and {self.layout.relation} has no primary key",
        )
        missing = missing_text(columns)
        fault = f"coalesce({FAULT}, {missing})" if missing else FAULT
        error = f"CASE WHEN {VALUE} IS NULL THEN {tombstone} ELSE {fault} END"
        return finished(frame, carried, columns, error, self.reader.raw)

    def failure(self, text: str) -> Error | None:
        return failure(text)


@dataclass(frozen=True)
class PlainEncoder:
    """Writes inserted rows, each as often as its weight."""

    layout: Layout
    writer: Writer
    key: KeyWriter

    @property
    def takes(self) -> Kind:
        return "append"

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        parts = split(changes, self.layout)
        if any(weight < 0 for weight in parts.weights):
            message = f"sink {self.layout.relation} appends rows, but step {parts.steps[0]} takes rows back"
            raise make("SINK_CANNOT_TAKE", message=message, hint="write format = 'debezium', 'upsert' or 'ops'")
        values, keys = self.writer.rows(parts.rows), self.key.keys(parts.rows)
        for key, value, weight in zip(keys, values, parts.weights, strict=True):
            for _ in range(weight):
                yield key, value


@dataclass(frozen=True)
class UpsertDecoder:
    """Replaces the row of a key by the record's value; no value deletes the key. Key columns that the value lacks are
    taken from the record's key."""

    layout: Layout
    reader: Reader

    def rows(self, frame: DataFrame) -> DataFrame:
        carried, columns = others(frame), self.layout.columns
        frame = self.reader.rows(frame)
        keys = self.reader.keys()
        values = {c.name: f"{ROW}.{identifier(c.name)}" for c in columns}
        values |= {name: f"coalesce({values[name]}, {key})" for name, key in keys.items()}
        columns_sql = [f"{value} AS {identifier(name)}" for name, value in values.items()]
        weight = f"IF({VALUE} IS NULL, -1L, 1L) AS {WEIGHT}"
        frame = frame.selectExpr("*", *columns_sql, weight, f"0 AS {PART}")
        raw = f"coalesce({self.reader.raw}, make_valid_utf8(CAST({KEY} AS STRING)))"
        return finished(frame, carried, columns, self._error(), raw)

    def failure(self, text: str) -> Error | None:
        return failure(text)

    def _error(self) -> str:
        keys = [c for c in self.layout.columns if c.name in self.layout.key]
        lost = " OR ".join(f"{identifier(c.name)} IS NULL" for c in keys) or "false"
        shape = ", ".join(f"{c.name} {c.type.upper()}" for c in keys)
        missing = missing_text(self.layout.columns)
        return (
            f"CASE WHEN {VALUE} IS NOT NULL THEN {f'coalesce({FAULT}, {missing})' if missing else FAULT}"
            f" WHEN {KEY} IS NULL THEN 'the record has neither key nor value'"
            f" WHEN {lost} THEN {literal(f'the key of the tombstone cannot be read as ({shape})')} END"
        )


@dataclass(frozen=True)
class UpsertEncoder:
    """The newest row of each key, and a tombstone for a key that goes. What an update takes back needs no record."""

    layout: Layout
    writer: Writer
    key: KeyWriter

    @property
    def takes(self) -> Kind:
        return "upsert"

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        parts = split(changes, self.layout)
        values, keys = self.writer.rows(parts.rows), self.key.keys(parts.rows)
        for op, key, value in zip(parts.ops, keys, values, strict=True):
            match op:
                case "+I" | "+U":
                    yield key, value
                case "-D":
                    yield key, None


@dataclass(frozen=True)
class OpsEncoder:
    """Changes as they are: `{"op":"+I","weight":1,"step":3,"row":{...}}`."""

    layout: Layout
    writer: ChangeWriter
    key: KeyWriter

    @property
    def takes(self) -> Kind:
        return "changelog"

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        parts = split(changes, self.layout)
        values = self.writer.tagged(parts.rows, parts.ops, parts.weights, parts.steps)
        return iter(list(zip(self.key.keys(parts.rows), values, strict=True)))
