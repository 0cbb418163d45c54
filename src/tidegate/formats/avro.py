"""Avro in Confluent's wire format: a zero, the schema's id in four bytes, the body. Decoded by fastavro in workers."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema, names
from tidegate.core.types import arrow_type
from tidegate.formats.avro_schema import AvroSchema, Schemas, UnknownSchema
from tidegate.formats.avro_values import array, text
from tidegate.formats.contract import AFTER, BEFORE, FAULT, KEY, OP, ROW, VALUE, Layout, Reader
from tidegate.formats.debezium import unwrapped
from tidegate.formats.keys import TextKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEAD = struct.Struct(">bI")
"""The head of a record: a zero, and the id of its schema."""

_TEXT = "__text"
_OF_KEY = "__of_key"
_CONNECT_TIMES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
}
_INNER = ("type", "items", "values", "fields")


class Undecodable(ValueError):
    """Bytes that cannot be decoded with their schema."""


@dataclass(frozen=True)
class AvroReader:
    """Reads records, each with its own schema, by the names of columns: a column that an older schema lacks is NULL,
    other fields are ignored."""

    layout: Layout
    schemas: Schemas
    unit: str
    record_key: TextKeys

    @property
    def raw(self) -> str:
        return _TEXT

    def rows(self, frame: DataFrame) -> DataFrame:
        return self._decoded(frame, (ROW,))

    def changes(self, frame: DataFrame) -> DataFrame:
        return self._decoded(frame, (BEFORE, AFTER))

    def keys(self) -> dict[str, str]:
        """The key columns from a key in Avro or in text, as the option says, or whichever it is."""
        in_avro = {name: f"{_OF_KEY}.{identifier(name)}" for name in names(self.record_key.columns)}
        if self.record_key.format == "avro":
            return in_avro
        is_text = f"NOT startswith({KEY}, X'00')"
        in_text = self.record_key.values()
        if self.record_key.format is not None:
            return in_text
        return {name: f"CASE WHEN {is_text} THEN {in_text[name]} ELSE {value} END" for name, value in in_avro.items()}

    def _decoded(self, frame: DataFrame, sides: tuple[str, ...]) -> DataFrame:
        key = self.record_key.columns if self.record_key.format in (None, "avro") else ()
        return with_decoded(frame, Decoding(self.schemas, self.unit, self.layout.columns, sides, key))


@dataclass(frozen=True)
class AvroKeyed:
    """Reads values of another encoding, with keys in Avro."""

    reader: Reader
    schemas: Schemas
    unit: str
    key: Schema

    @property
    def raw(self) -> str:
        return self.reader.raw

    def rows(self, frame: DataFrame) -> DataFrame:
        return self.reader.rows(with_decoded(frame, Decoding(self.schemas, self.unit, (), (), self.key)))

    def keys(self) -> dict[str, str]:
        return {name: f"{_OF_KEY}.{identifier(name)}" for name in names(self.key)}


@dataclass(frozen=True)
class Decoding:
    """Decodes batches of records in workers: adds the decoded columns to a batch."""

    schemas: Schemas
    unit: str
    columns: Schema
    sides: tuple[str, ...]
    key: Schema = ()

    def added(self) -> list[tuple[str, str]]:
        """The columns that are added, with their types."""
        sides = [(name, _ddl(self.columns)) for name in self.sides]
        op = [(OP, "STRING")] if self._is_change() else []
        fault = [(FAULT, "STRING"), (_TEXT, "STRING")] if self.sides else []
        return [*sides, *op, *fault, *([(_OF_KEY, _ddl(self.key))] if self.key else [])]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [*batch.columns, *self.decoded(batch.column(VALUE), batch.column(KEY))]
            yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *(name for name, _ in self.added())])

    def decoded(self, values: pa.Array, keys: pa.Array) -> list[pa.Array]:
        """The added columns of one batch."""
        known = _Known(self.schemas)
        of_values = self._values(values, known) if self.sides else []
        return [*of_values, *([self._keys(keys, known)] if self.key else [])]

    def _values(self, values: pa.Array, known: _Known) -> list[pa.Array]:
        records = values.to_pylist()
        decoded = _Decoded([_decode(record, known) for record in records])
        sides = [self._side(decoded, name) for name in self.sides]
        ops = [pa.array([_op(value) for value in decoded.values], pa.string())] if self._is_change() else []
        outcomes = zip(records, decoded.values, decoded.faults, strict=True)
        raw = [text_of(record, value) if fault else None for record, value, fault in outcomes]
        return [*sides, *ops, pa.array(decoded.faults, pa.string()), pa.array(raw, pa.string())]

    def _is_change(self) -> bool:
        return len(self.sides) == 2

    def _side(self, decoded: _Decoded, name: str) -> pa.Array:
        if not self._is_change():
            return decoded.row(decoded.values, self.columns, self.unit, "")
        label = name.strip("_")
        envelopes = [unwrapped(value) for value in decoded.values]
        side = [value.get(label) if isinstance(value, dict) else None for value in envelopes]
        return decoded.row(side, self.columns, self.unit, "before." if name == BEFORE else "")

    def _keys(self, keys: pa.Array, known: _Known) -> pa.Array:
        """Decode keys. One that cannot be decoded is NULL: whether that matters depends on the value."""
        decoded = _Decoded([_decode(key, known) if key and key[0] == 0 else None for key in keys.to_pylist()])
        rows = decoded.values
        if len(self.key) == 1:
            name = self.key[0].name
            rows = [value if value is None or isinstance(value, dict) else {name: value} for value in rows]
        return decoded.row(rows, self.key, self.unit, "")


class _Known:
    """The schemas of a batch, also unknown ones, so that the registry is not asked for every record."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._found: dict[int, AvroSchema | Undecodable] = {}

    def __getitem__(self, number: int) -> AvroSchema | Undecodable:
        if number not in self._found:
            self._found[number] = self._parsed(number)
        return self._found[number]

    def _parsed(self, number: int) -> AvroSchema | Undecodable:
        from fastavro.schema import SchemaParseException

        try:
            return parsed(self._schemas, number)
        except UnknownSchema as error:
            return Undecodable(str(error))
        except (SchemaParseException, LookupError, TypeError, ValueError):
            return Undecodable(f"schema {number} is not one of Avro")


@dataclass
class _Decoded:
    """The decoded values of a batch, and the reasons why some cannot be read."""

    values: list[Any]
    faults: list[str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [str(value) if isinstance(value, Undecodable) else None for value in self.values]
        self.values = [None if isinstance(value, Undecodable) else value for value in self.values]

    def row(self, records: Sequence[Any], columns: Schema, unit: str, label: str) -> pa.Array:
        """Convert records to structs of the columns; a value that does not fit becomes a fault."""
        is_record = [isinstance(record, dict) for record in records]
        self._note_others(records, is_record, columns)
        arrays = []
        for column in columns:
            values = [record.get(column.name) if ok else None for record, ok in zip(records, is_record, strict=True)]
            made, misfits = array(values, arrow_type(column.type), unit)
            arrays.append(made)
            for index, value in misfits.items():
                rendered = text(value)[:80]
                self._note(index, f"{label}{column.name}: '{rendered}' is not a {column.type.upper()}")
        fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
        return pa.StructArray.from_arrays(
            arrays, fields=fields, mask=pa.array([not ok for ok in is_record], pa.bool_())
        )

    def _note_others(self, records: Sequence[Any], is_record: list[bool], columns: Schema) -> None:
        for index, (record, ok) in enumerate(zip(records, is_record, strict=True)):
            if not ok and record is not None:
                self._note(index, f"not a record with the columns {', '.join(names(columns))}")

    def _note(self, index: int, fault: str) -> None:
        self.faults[index] = self.faults[index] or fault


def text_of(raw: bytes | None, value: Any) -> str | None:
    """Render a record that cannot be read: the decoded value as JSON, else its bytes in hex."""
    if raw is None or value is not None:
        return None if raw is None else text(value)
    return raw.hex()


def _op(value: Any) -> str | None:
    envelope = unwrapped(value)
    op = envelope.get("op") if isinstance(envelope, dict) else None
    return op if isinstance(op, str) else None


def _ddl(columns: Schema) -> str:
    return f"STRUCT<{', '.join(f'{identifier(c.name)}: {c.type}' for c in columns)}>"


def with_decoded(frame: DataFrame, work: Decoding) -> DataFrame:
    """Add the columns that workers decode."""
    from pyspark.sql.types import DataType, StructField, StructType

    added = [StructField(name, DataType.fromDDL(ddl)) for name, ddl in work.added()]
    return frame.mapInArrow(work, StructType([*frame.schema.fields, *added]))


def _decode(record: bytes | None, known: _Known) -> Any:
    """Decode a record. A failure is returned, not raised, so that the rest of the batch is decoded."""
    from fastavro import schemaless_reader

    if record is None:
        return None
    if len(record) < HEAD.size or record[0] != 0:
        return Undecodable("not Avro with a schema id (Confluent's wire format)")
    _, number = HEAD.unpack_from(record)
    schema = known[number]
    if isinstance(schema, Undecodable):
        return schema
    body = io.BytesIO(record)
    body.seek(HEAD.size)
    try:
        return schemaless_reader(body, schema, None)
    except (EOFError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError, struct.error):
        return Undecodable(f"not a record of schema {number}")


@lru_cache(maxsize=4096)
def parsed(schemas: Schemas, number: int) -> AvroSchema:
    """Parse a schema for fastavro, once per worker. Debezium marks times by name instead of by logical type."""
    from fastavro import parse_schema

    return parse_schema(_with_times(schemas.by_id(number)))


def _with_times(schema: AvroSchema) -> AvroSchema:
    if isinstance(schema, list):
        return [_with_times(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {key: _with_times(part) if key in _INNER else part for key, part in schema.items()}
    time = _CONNECT_TIMES.get(typed.get("connect.name", ""))
    return typed | {"logicalType": time} if time and isinstance(typed.get("type"), str) else typed
