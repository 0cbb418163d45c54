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
from tidegate.formats import avro_schema
from tidegate.formats.avro_schema import AvroSchema, Schemas, UnknownSchema
from tidegate.formats.avro_values import array, cells, text
from tidegate.formats.contract import AFTER, BEFORE, FAULT, KEY, OP, ROW, VALUE, Change, Layout, Reader
from tidegate.formats.keys import TextKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HEAD = struct.Struct(">bI")
_TEXT = "__text"
_OF_KEY = "__of_key"
_CONNECT_TIMES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
}
_INNER = ("type", "items", "values", "fields")


class Undecodable(ValueError):
    """Bytes that are no record of their schema."""


@dataclass(frozen=True)
class AvroReader:
    """Records with a schema each, read as the declared columns by name: those that an older schema lacks are NULL,
    others are left out."""

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
        """A key in Avro, else text, unless the option says which."""
        found = {name: f"{_OF_KEY}.{identifier(name)}" for name in names(self.record_key.columns)}
        if self.record_key.format == "avro":
            return found
        is_text = f"NOT startswith({KEY}, X'00')"
        said = self.record_key.values()
        if self.record_key.format is not None:
            return said
        return {name: f"CASE WHEN {is_text} THEN {said[name]} ELSE {of_key} END" for name, of_key in found.items()}

    def _decoded(self, frame: DataFrame, sides: tuple[str, ...]) -> DataFrame:
        key = self.record_key.columns if self.record_key.format in (None, "avro") else ()
        return with_decoded(frame, Decoding(self.schemas, self.unit, self.layout.columns, sides, key))


@dataclass(frozen=True)
class AvroKeyed:
    """Another encoding's values, with keys in Avro."""

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
    """What workers do: batches of records into the same with the decoded columns added."""

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
        said = _Decoded([_decode(record, known) for record in records])
        sides = [self._side(said, name) for name in self.sides]
        ops = [pa.array([_op(value) for value in said.values], pa.string())] if self._is_change() else []
        told = zip(records, said.values, said.faults, strict=True)
        shown = [text_of(record, value) if fault else None for record, value, fault in told]
        return [*sides, *ops, pa.array(said.faults, pa.string()), pa.array(shown, pa.string())]

    def _is_change(self) -> bool:
        return len(self.sides) == 2

    def _side(self, said: _Decoded, name: str) -> pa.Array:
        if not self._is_change():
            return said.row(said.values, self.columns, self.unit, "")
        label = name.strip("_")
        envelopes = [_inner(value) for value in said.values]
        side = [value.get(label) if isinstance(value, dict) else None for value in envelopes]
        return said.row(side, self.columns, self.unit, "before." if name == BEFORE else "")

    def _keys(self, keys: pa.Array, known: _Known) -> pa.Array:
        """Keys that cannot be read are NULL: whether that matters depends on the value."""
        said = _Decoded([_decode(key, known) if key and key[0] == 0 else None for key in keys.to_pylist()])
        rows = said.values
        if len(self.key) == 1:
            name = self.key[0].name
            rows = [value if value is None or isinstance(value, dict) else {name: value} for value in rows]
        return said.row(rows, self.key, self.unit, "")


class _Known:
    """The schemas of a batch, also those that do not exist: the registry is not asked again for every record."""

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
    """The values of a batch, and why some of them cannot be read."""

    values: list[Any]
    faults: list[str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.faults = [str(value) if isinstance(value, Undecodable) else None for value in self.values]
        self.values = [None if isinstance(value, Undecodable) else value for value in self.values]

    def row(self, records: Sequence[Any], columns: Schema, unit: str, label: str) -> pa.Array:
        """Records as structs of the columns; a value that does not fit is noted."""
        there = [isinstance(record, dict) for record in records]
        self._note_others(records, there, columns)
        arrays = []
        for column in columns:
            values = [record.get(column.name) if ok else None for record, ok in zip(records, there, strict=True)]
            made, misfits = array(values, arrow_type(column.type), unit)
            arrays.append(made)
            for place, value in misfits.items():
                shown = text(value)[:80]
                self._note(place, f"{label}{column.name}: '{shown}' is not a {column.type.upper()}")
        fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array([not ok for ok in there], pa.bool_()))

    def _note_others(self, records: Sequence[Any], there: list[bool], columns: Schema) -> None:
        for place, (record, ok) in enumerate(zip(records, there, strict=True)):
            if not ok and record is not None:
                self._note(place, f"not a record with the columns {', '.join(names(columns))}")

    def _note(self, place: int, fault: str) -> None:
        self.faults[place] = self.faults[place] or fault


def text_of(raw: bytes | None, value: Any) -> str | None:
    """What cannot be read, as text: the decoded value as JSON, else its bytes in hex."""
    if raw is None or value is not None:
        return None if raw is None else text(value)
    return raw.hex()


def _op(value: Any) -> str | None:
    envelope = _inner(value)
    op = envelope.get("op") if isinstance(envelope, dict) else None
    return op if isinstance(op, str) else None


def _inner(value: Any) -> Any:
    wrapped = isinstance(value, dict) and isinstance(value.get("payload"), dict)
    return value["payload"] if wrapped else value


def _ddl(columns: Schema) -> str:
    return f"STRUCT<{', '.join(f'{identifier(c.name)}: {c.type}' for c in columns)}>"


def with_decoded(frame: DataFrame, work: Decoding) -> DataFrame:
    """The frame with the columns that workers add."""
    from pyspark.sql.types import DataType, StructField, StructType

    added = [StructField(name, DataType.fromDDL(ddl)) for name, ddl in work.added()]
    return frame.mapInArrow(work, StructType([*frame.schema.fields, *added]))


def _decode(record: bytes | None, known: _Known) -> Any:
    """A record's value; what cannot be decoded is returned as the reason, since a batch goes on."""
    from fastavro import schemaless_reader

    if record is None:
        return None
    if len(record) < _HEAD.size or record[0] != 0:
        return Undecodable("not Avro with a schema id (Confluent's wire format)")
    _, number = _HEAD.unpack_from(record)
    schema = known[number]
    if isinstance(schema, Undecodable):
        return schema
    body = io.BytesIO(record)
    body.seek(_HEAD.size)
    try:
        return schemaless_reader(body, schema, None)
    except (EOFError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError, struct.error):
        return Undecodable(f"not a record of schema {number}")


@lru_cache(maxsize=4096)
def parsed(schemas: Schemas, number: int) -> AvroSchema:
    """A schema as fastavro wants it, once for each worker. Debezium names its times where Avro has logical types."""
    from fastavro import parse_schema

    return parse_schema(_with_times(schemas.by_id(number)))


def _with_times(schema: AvroSchema) -> AvroSchema:
    if isinstance(schema, list):
        return [_with_times(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    said = {key: _with_times(part) if key in _INNER else part for key, part in schema.items()}
    time = _CONNECT_TIMES.get(said.get("connect.name", ""))
    return said | {"logicalType": time} if time and isinstance(said.get("type"), str) else said


@dataclass(frozen=True)
class AvroWriter:
    """Rows in Avro. A schema is registered when the first record of its kind is written."""

    layout: Layout
    schemas: Schemas
    subject: str

    def rows(self, rows: pa.Table) -> list[bytes]:
        schema = avro_schema.record("Value", self.layout.columns)
        return encoded(objects(rows), schema, self.schemas, f"{self.subject}-value")

    def changes(self, rows: pa.Table, changes: Sequence[Change]) -> list[bytes]:
        said = [*objects(rows), None]
        envelopes = [
            {
                "before": said[-1 if change.before is None else change.before],
                "after": said[-1 if change.after is None else change.after],
                "source": {"step": change.step},
                "op": change.op,
            }
            for change in changes
        ]
        return encoded(envelopes, avro_schema.envelope(self.layout.columns), self.schemas, f"{self.subject}-value")

    def tagged(self, rows: pa.Table, ops: Sequence[str], weights: Sequence[int], steps: Sequence[int]) -> list[bytes]:
        said = zip(ops, weights, steps, objects(rows), strict=True)
        records = [{"op": op, "weight": weight, "step": step, "row": row} for op, weight, step, row in said]
        return encoded(records, avro_schema.tagged(self.layout.columns), self.schemas, f"{self.subject}-value")


@dataclass(frozen=True)
class AvroKeys:
    """The key columns as a record."""

    columns: Schema
    places: tuple[int, ...]
    schemas: Schemas
    subject: str

    def keys(self, rows: pa.Table) -> list[bytes | None]:
        schema = avro_schema.record("Key", self.columns)
        chosen = objects(rows.select(list(self.places)))
        return list(encoded(chosen, schema, self.schemas, f"{self.subject}-key"))


def objects(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as fastavro writes them."""
    columns = [cells(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def encoded(records: Sequence[Any], schema: AvroSchema, schemas: Schemas, subject: str) -> list[bytes]:
    """Records in the wire format."""
    from fastavro import parse_schema, schemaless_writer

    if not records:
        return []
    head, ready = _HEAD.pack(0, schemas.register(subject, schema)), parse_schema(schema)
    made = []
    for record in records:
        body = io.BytesIO()
        body.write(head)
        schemaless_writer(body, ready, record)
        made.append(body.getvalue())
    return made
