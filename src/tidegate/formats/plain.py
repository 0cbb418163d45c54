"""A record is a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.core.columns import WEIGHT
from tidegate.core.quoting import identifier, literal
from tidegate.errors import Error, make
from tidegate.formats.base import PART, VALUE, Layout
from tidegate.formats.changes import split
from tidegate.formats.encoding import FAULT, ROW, KeyWriter, Reader, Writer, finished, others
from tidegate.formats.malformed import missing_text
from tidegate.formats.schemas import failure
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlainDecoder:
    """Every record adds a row. A tombstone has no row to say, and without a key nothing to delete."""

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
    """Rows that are added, each as often as its weight says."""

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
