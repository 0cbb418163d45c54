"""Avro in Confluent's wire format, written by fastavro."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.core.schema import Schema
from tidegate.formats import avro_schema
from tidegate.formats.avro import HEAD
from tidegate.formats.avro_schema import AvroSchema, Schemas
from tidegate.formats.contract import Change, Layout


@dataclass(frozen=True)
class AvroWriter:
    """Writes rows in Avro. A schema is registered with the first record that needs it."""

    layout: Layout
    schemas: Schemas
    subject: str

    def rows(self, rows: pa.Table) -> list[bytes]:
        schema = avro_schema.record("Value", self.layout.columns)
        return encoded(objects(rows), schema, self.schemas, f"{self.subject}-value")

    def changes(self, rows: pa.Table, changes: Sequence[Change]) -> list[bytes]:
        dicts = [*objects(rows), None]
        envelopes = [
            {
                "before": dicts[-1 if change.before is None else change.before],
                "after": dicts[-1 if change.after is None else change.after],
                "source": {"step": change.step},
                "op": change.op,
            }
            for change in changes
        ]
        return encoded(envelopes, avro_schema.envelope(self.layout.columns), self.schemas, f"{self.subject}-value")

    def tagged(self, rows: pa.Table, ops: Sequence[str], weights: Sequence[int], steps: Sequence[int]) -> list[bytes]:
        changes = zip(ops, weights, steps, objects(rows), strict=True)
        records = [{"op": op, "weight": weight, "step": step, "row": row} for op, weight, step, row in changes]
        return encoded(records, avro_schema.tagged(self.layout.columns), self.schemas, f"{self.subject}-value")


@dataclass(frozen=True)
class AvroKeys:
    """Writes the key columns as a record."""

    columns: Schema
    indexes: tuple[int, ...]
    schemas: Schemas
    subject: str

    def keys(self, rows: pa.Table) -> list[bytes | None]:
        schema = avro_schema.record("Key", self.columns)
        chosen = objects(rows.select(list(self.indexes)))
        return list(encoded(chosen, schema, self.schemas, f"{self.subject}-key"))


def objects(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert rows to the dicts that fastavro writes."""
    columns = [cells(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def encoded(records: Sequence[Any], schema: AvroSchema, schemas: Schemas, subject: str) -> list[bytes]:
    """Encode records in the wire format."""
    from fastavro import parse_schema, schemaless_writer

    if not records:
        return []
    head, ready = HEAD.pack(0, schemas.register(subject, schema)), parse_schema(schema)
    made = []
    for record in records:
        body = io.BytesIO()
        body.write(head)
        schemaless_writer(body, ready, record)
        made.append(body.getvalue())
    return made


def cells(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return the values of a column for fastavro. Times are numbers, which avoids a Python object for each."""
    types = pa.types
    if types.is_timestamp(column.type) or types.is_duration(column.type):
        column = column.cast(pa.int64())
    elif types.is_date(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return [_nested(value, column.type) for value in values] if types.is_nested(column.type) else values


def _nested(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, pa.StructType):
        return {f.name: _nested(value[f.name], f.type) for f in type_.fields}
    if isinstance(type_, pa.MapType):
        pairs = [(_nested(k, type_.key_type), _nested(v, type_.item_type)) for k, v in value]
        return dict(pairs) if pa.types.is_string(type_.key_type) else [{"key": k, "value": v} for k, v in pairs]
    if isinstance(type_, pa.ListType):
        return [_nested(item, type_.value_type) for item in value]
    return value // dt.timedelta(microseconds=1) if isinstance(value, dt.timedelta) else value
