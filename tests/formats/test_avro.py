"""Avro: wire format, schema evolution, values that do not fit, and round trips."""

from __future__ import annotations

import datetime as dt
import io
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from pyspark.sql import SparkSession

from tests.formats.records import (
    EVERYTHING,
    TRADES,
    Record,
    bag,
    changes,
    everything,
    reading,
    rows,
    same,
    summarize,
    without_rows,
    writing,
)
from tests.servers.processes import free_port
from tests.tiers import examples
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error
from tidegate.formats.avro import Decoding
from tidegate.formats.avro_schema import Registry, Schemas, UnknownSchema, failure
from tidegate.formats.avro_writer import AvroKeys, AvroWriter
from tidegate.formats.contract import AFTER, BEFORE, ROW, Layout
from tidegate.formats.debezium import DebeziumEncoder
from tidegate.formats.envelopes import OpsEncoder, PlainEncoder
from tidegate.formats.names import decoder, encoder

NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


class SchemasInMemory:
    """A schema registry in memory that counts lookups."""

    def __init__(self) -> None:
        self.schemas: list[Any] = []
        self.subjects: dict[str, int] = {}
        self.lookups = 0

    def by_id(self, number: int) -> Any:
        self.lookups += 1
        if number >= len(self.schemas):
            raise UnknownSchema(f"schema {number} is not in the registry")
        return self.schemas[number]

    def register(self, subject: str, schema: Any) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.subjects[subject] = self.schemas.index(schema)
        return self.subjects[subject]


def record(schemas: Schemas, schema: Any, value: Any) -> bytes:
    """A record in Confluent's wire format, written by another library."""
    body = io.BytesIO(struct.pack(">bI", 0, schemas.register("others-value", schema)))
    body.seek(5)
    schemaless_writer(body, parse_schema(schema), value)
    return body.getvalue()


def fields(**types: Any) -> dict[str, Any]:
    members = [{"name": name, "type": type_} for name, type_ in types.items()]
    return {"type": "record", "name": "Row", "fields": members}


def decode(
    schemas: Schemas, columns: Schema, records: Sequence[bytes | None], unit: str = "s", sides: tuple[str, ...] = (ROW,)
) -> list[list[Any]]:
    work = Decoding(schemas, unit, columns, sides)
    arrays = work.decoded(pa.array(records, pa.binary()), pa.nulls(len(records), pa.binary()))
    return [array.to_pylist() for array in arrays]


def test_columns_are_found_by_name_in_older_and_newer_schemas() -> None:
    schemas = SchemasInMemory()
    records = [
        record(schemas, fields(id="long"), {"id": 1}),
        record(
            schemas,
            fields(more="string", qty="int", name=["null", "string"], id="int"),
            {"more": "x", "qty": 5, "name": None, "id": 2},
        ),
        None,
        record(schemas, fields(id="long"), {"id": 3}),
    ]
    results, faults, _ = decode(schemas, TRADES, records)
    assert results == [
        {"id": 1, "name": None, "qty": None},
        {"id": 2, "name": None, "qty": 5},
        None,
        {"id": 3, "name": None, "qty": None},
    ]
    assert faults == [None] * 4
    assert schemas.lookups == 2


def test_errors_concern_only_their_record() -> None:
    schemas = SchemasInMemory()
    good = record(schemas, fields(id="long"), {"id": 1})
    texts = fields(id="string", name="int", qty="long")
    records: list[bytes | None] = [
        good,
        b"",
        b"{}",
        struct.pack(">bI", 0, 77) + b"x",
        struct.pack(">bI", 0, 77) + b"y",
        good[:-1],
        record(schemas, texts, {"id": "one", "name": 5, "qty": 1}),
        record(schemas, fields(qty="long"), {"qty": 3_000_000_000}),
        record(schemas, {"type": "array", "items": "int"}, [1]),
    ]
    results, faults, raws = decode(schemas, TRADES, records)
    wire = "not Avro with a schema id (Confluent's wire format)"
    assert faults == [
        None,
        wire,
        wire,
        "schema 77 is not in the registry",
        "schema 77 is not in the registry",
        "not a record of schema 0",
        "id: 'one' is not a BIGINT",
        "qty: '3000000000' is not a INT",
        "not a record with the columns id, name, qty",
    ]
    assert schemas.lookups == 5
    assert raws[0] is None and raws[2] == "7b7d" and raws[6] == '{"id":"one","name":5,"qty":1}'
    assert results[6]["name"] == "5"


def test_logical_types_become_the_declared_types() -> None:
    schemas = SchemasInMemory()
    columns = (
        Column("at", "timestamp"),
        Column("local", "timestamp_ntz"),
        Column("day", "date"),
        Column("money", "decimal(6,2)"),
        Column("code", "string"),
        Column("size", "double"),
    )
    number = {"type": "long", "logicalType": "timestamp-millis"}
    money = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    code = {"type": "string", "logicalType": "uuid"}
    day = {"type": "int", "logicalType": "date"}
    one = fields(at=number, local=number, day=day, money=money, code=code, size="int")
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    two = fields(at=local, local=local, day="int", money="string", code="boolean", size="float")
    debezium = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    days = {"type": "int", "connect.name": "io.debezium.time.Date"}
    three = fields(at="string", local=["null", debezium], day=days, money="double", code="bytes", size="long")
    four = fields(at="long", local="string", day="string", money=money)
    name = uuid.UUID(int=7)
    naive = NOON.replace(tzinfo=None)
    micros = 1_714_564_800_000_000
    records = [
        record(
            schemas,
            one,
            {"at": NOON, "local": NOON, "day": NOON.date(), "money": Decimal("1.50"), "code": name, "size": 2},
        ),
        record(schemas, two, {"at": naive, "local": naive, "day": 19844, "money": "1.5", "code": True, "size": 2.0}),
        record(
            schemas,
            three,
            {"at": "2024-05-01T12:00:00Z", "local": micros, "day": 19844, "money": 1.5, "code": b"x", "size": 2},
        ),
        record(
            schemas,
            four,
            {"at": micros // 10**6, "local": "2024-05-01T12:00:00", "day": "2024-05-01", "money": Decimal("1.5")},
        ),
        record(schemas, fields(money="double"), {"money": 1.125}),
        record(schemas, fields(at="boolean"), {"at": True}),
    ]
    results, faults, _ = decode(schemas, columns, records)
    common = {"at": NOON, "local": naive, "day": NOON.date(), "money": Decimal("1.50")}
    assert results[:4] == [
        common | {"code": str(name), "size": 2.0},
        common | {"code": "true", "size": 2.0},
        common | {"code": "eA==", "size": 2.0},
        common | {"code": None, "size": None},
    ]
    assert faults == [None] * 4 + ["money: '1.125' is not a DECIMAL(6,2)", "at: 'true' is not a TIMESTAMP"]


@examples(20)
@given(everything(20))
def test_written_rows_are_read_back(rows: list[tuple[Any, ...]]) -> None:
    schemas = SchemasInMemory()
    layout = Layout("trades", EVERYTHING)
    encoder = PlainEncoder(layout, AvroWriter(layout, schemas, "t"), AvroKeys(EVERYTHING[:1], (0,), schemas, "t"))
    records = list(encoder.records(changes(EVERYTHING, *(("+I", *row) for row in rows))))
    assert schemas.subjects.keys() == {"t-value", "t-key"}
    work = Decoding(schemas, "s", EVERYTHING, (ROW,), EVERYTHING[:1])
    columns = [pa.array(list(column), pa.binary()) for column in zip(*records, strict=True)]
    results, faults, _, keys = (array.to_pylist() for array in work.decoded(columns[1], columns[0]))
    assert faults == [None] * len(rows)
    assert keys == [{"id": row[0]} for row in rows]
    for row, expected in zip(results, rows, strict=True):
        for column, value in zip(EVERYTHING, expected, strict=True):
            assert same(row[column.name], value), (column, row[column.name], value)


def test_changes_and_ops() -> None:
    schemas = SchemasInMemory()
    layout = Layout("trades", TRADES, ("id",))
    writer, keys = AvroWriter(layout, schemas, "t"), AvroKeys(TRADES[:1], (0,), schemas, "t")
    table = changes(TRADES, ("+I", 1, "a", 1), ("-U", 2, "b", 1), ("+U", 2, "b", 2), ("-D", 3, None, None))
    records = [value for _, value in DebeziumEncoder(layout, writer, keys, True).records(table)]
    before, after, ops, faults, _ = decode(schemas, TRADES, records, sides=(BEFORE, AFTER))
    assert ops == ["c", "u", "d", None] and faults == [None] * 4
    assert [row and row["id"] for row in before] == [None, 2, 3, None]
    assert [row and row["qty"] for row in after] == [1, 2, None, None]
    with_ops = [value for _, value in OpsEncoder(layout, writer, keys).records(table)]
    columns = (Column("op", "string"), Column("weight", "bigint"), Column("row", "struct<id:bigint>"))
    results, _, _ = decode(schemas, columns, with_ops)
    assert results[3] == {"op": "-D", "weight": -1, "row": {"id": 3}}


def test_names_that_avro_does_not_allow() -> None:
    for name in ("total amount", "1st"):
        with pytest.raises(Error) as caught:
            writing((Column(name, "int"),), "avro", schema_registry_url="http://x")
        assert caught.value.hint == "rename it in a view, with AS"
    with pytest.raises(Error) as caught:
        writing((TRADES[0], TRADES[0]), "avro", schema_registry_url="http://x")
    assert caught.value.message == "Avro cannot have two columns named id"


def test_through_a_registry_and_spark(spark: SparkSession, registry_url: str) -> None:
    inserted = [(1, "pen", 5), (2, None, None), (3, "cup", 7)]
    options = {"schema_registry_url": registry_url}
    table = changes(TRADES, *(("+I", *row) for row in inserted), ("-D", 1, "pen", 5))
    own = bag(**options, subject=f"own-{uuid.uuid4()}")
    avro = encoder(Layout("trades", TRADES, ("id",)), "upsert-avro", own, subject="topic")
    own.finish()
    records: list[Record] = [*avro.records(table), ("4", None), (None, "{}"), (b"\0x", None)]
    unknown = struct.pack(">bI", 0, 2_000_000) + b"x"
    results = summarize(rows(spark, reading(TRADES, "avro", ["id"], **options), [*records, (None, unknown)]))
    assert results == [
        *((place, 1, *row) for place, row in enumerate(inserted)),
        (3, -1, 1, None, None),
        (4, -1, 4, None, None),
        (5, "not Avro with a schema id (Confluent's wire format)"),
        (6, "the key of the tombstone cannot be read as (id BIGINT)"),
        (7, "schema 2000000 is not in the registry"),
    ]
    json_values = [(key, value) for key, value in records[:4] if value is None] + [(records[1][0], '{"name":"x"}')]
    by_key = reading(TRADES, "json", ["id"], key_format="avro", **options)
    assert summarize(rows(spark, by_key, json_values)) == [(0, -1, 1, None, None), (1, 1, 2, "x", None)]


@examples(2)
@given(everything(30))
def test_every_type_through_a_registry_and_spark(
    spark: SparkSession, registry_url: str, inserted: list[tuple[Any, ...]]
) -> None:
    options = {"schema_registry_url": registry_url}
    name = f"all-{uuid.uuid4()}"
    table = changes(EVERYTHING, *(("+I", *row) for row in inserted), ("-U", *inserted[0]), ("+U", *inserted[1]))
    avro = encoder(Layout("t", EVERYTHING), "debezium-avro", bag(**options), subject=name)
    results = rows(
        spark, decoder(Layout("t", EVERYTHING), "debezium-avro", bag(**options), keyed=False), list(avro.records(table))
    )
    assert [row["__error"] for row in results] == [None] * 32
    assert [row["__w"] for row in results] == [1] * 30 + [-1, 1]
    for row, expected in zip(results, [*inserted, inserted[0], inserted[1]], strict=True):
        for column, value in zip(EVERYTHING, expected, strict=True):
            assert same(without_rows(row[column.name]), value), (column, row[column.name], value)


def test_a_registry_that_does_not_answer_fails_the_step(spark: SparkSession) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    avro = reading(TRADES, "avro", schema_registry_url=url, schema_registry_user="me", schema_registry_password="hush")
    with pytest.raises(Exception, match="failed") as caught:
        rows(spark, avro, [(None, struct.pack(">bI", 0, 1) + b"x")])
    error = avro.failure(str(caught.value))
    assert error is not None
    assert (error.code, error.message) == ("PIPELINE_FAILED", f"the schema registry at {url} cannot be asked")
    assert "schema_registry_url" in (error.hint or "")
    assert "hush" not in str(error) + repr(avro)
    assert failure("something else") is None
    with pytest.raises(Error) as caught:
        Registry(url.replace("//", "//me:hush@")).register("t-value", "string")
    assert "hush" not in str(caught.value) and caught.value.code == "PIPELINE_FAILED"
