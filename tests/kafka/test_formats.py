"""Formats end to end: Avro with a real registry and a schema that evolves mid-stream, and Debezium."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import errors_of, rows, topic
from tests.servers import Broker

FIRST = {
    "type": "record",
    "name": "instrument",
    "fields": [{"name": "symbol", "type": "string"}, {"name": "lot", "type": "int"}],
}
SECOND = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "sector", "type": ["null", "string"], "default": None}],  # type: ignore[misc]
}


class Avro:
    """Records in Confluent's wire format."""

    def __init__(self, url: str, subject: str) -> None:
        self.client, self.subject = SchemaRegistryClient({"url": url}), subject

    def record(self, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
        number = self.client.register_schema(self.subject, Schema(json.dumps(schema), "AVRO"))
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
        return b"\x00" + number.to_bytes(4, "big") + body.getvalue()


def debezium(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> bytes:
    return json.dumps({"before": before, "after": after, "op": op, "source": {"table": "t"}, "ts_ms": 5}).encode()


def test_avro_and_debezium(spark: SparkSession, tmp_path: Path, broker: Broker, registry_url: str) -> None:
    avro, changes = topic(broker, "avro"), topic(broker, "changes")
    back, ops, envelope = topic(broker, "back"), topic(broker, "ops"), topic(broker, "envelope")
    writer = Avro(registry_url, f"{avro}-value")
    broker.produce(avro, [(b"A", writer.record(FIRST, {"symbol": "A", "lot": 1}))])
    broker.produce(avro, [(b"X", b"\x01junk"), (b"Y", b"\x00\x00\x0f\xff\xff?")])
    broker.produce(
        changes,
        [
            (b'{"id": 1}', debezium("r", None, {"id": 1, "x": 10})),
            (b'{"id": 2}', debezium("c", None, {"id": 2, "x": 20})),
            (b'{"id": 1}', debezium("u", {"id": 1, "x": 10}, {"id": 1, "x": 11})),
            (b'{"id": 2}', debezium("d", {"id": 2, "x": 20}, None)),
            (b'{"id": 2}', None),
            (b'{"id": 3}', json.dumps({"schema": {}, "payload": {"op": "c", "after": {"id": 3, "x": 30}}}).encode()),
            (b'{"id": 3}', b'{"op": "t"}'),
        ],
    )
    kafka = f"brokers = '{broker.address}'"
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql(f"""
            CREATE TABLE instruments (symbol STRING PRIMARY KEY, sector STRING, lot BIGINT)
                FROM KAFKA ({kafka}, topic = '{avro}', format = 'avro', schema_registry_url = '{registry_url}');
            CREATE TABLE keyed (id BIGINT PRIMARY KEY, x INT) FROM KAFKA ({kafka}, topic = '{changes}') FORMAT DEBEZIUM;
            CREATE SOURCE bag (id BIGINT, x INT) WITH ('connector' = 'kafka', 'topic' = '{changes}',
                'properties.bootstrap.servers' = '{broker.address}', 'format' = 'debezium-json');
            CREATE MATERIALIZED VIEW lots AS SELECT sector, SUM(lot) AS lots FROM instruments GROUP BY sector;
            CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(x) AS x FROM bag;
            CREATE SINK back FROM lots INTO KAFKA ({kafka}, topic = '{back}', schema_registry_url = '{registry_url}')
                FORMAT UPSERT ENCODE AVRO;
            CREATE SINK ops FROM keyed INTO KAFKA ({kafka}, topic = '{ops}', format = 'ops');
            CREATE SINK envelope FROM keyed INTO KAFKA ({kafka}, topic = '{envelope}', format = 'debezium');
        """)
        db.step()
        assert rows(db, "SELECT * FROM instruments") == [("A", None, 1)]
        assert rows(db, "SELECT * FROM keyed") == [(1, 11), (3, 30)]
        assert rows(db, "SELECT * FROM total") == [(2, 41)]
        assert len(errors_of(db, "instruments")) == 2
        assert {message.partition(": ")[2] for message, _ in errors_of(db, "keyed")} == {
            message.partition(": ")[2] for message, _ in errors_of(db, "bag")
        }

        evolved = [{"symbol": "A", "lot": 2, "sector": "tech"}, {"symbol": "B", "lot": 5, "sector": None}]
        broker.produce(avro, [(row["symbol"].encode(), writer.record(SECOND, row)) for row in evolved])
        broker.produce(avro, [(b"C", writer.record(FIRST, {"symbol": "C", "lot": 7}))])
        broker.produce(changes, [(b'{"id": 1}', debezium("d", {"id": 1, "x": 11}, None))])
        db.step()
        assert rows(db, "SELECT * FROM instruments") == [("A", "tech", 2), ("B", None, 5), ("C", None, 7)]
        assert rows(db, "SELECT * FROM total") == [(1, 30)]
        broker.produce(avro, [(b"B", None), (b"C", None)])
        db.step()
        assert rows(db, "SELECT * FROM lots") == [("tech", 2)]

        db.sql(f"""
            CREATE TABLE again (sector STRING PRIMARY KEY, lots BIGINT) FROM KAFKA ({kafka}, topic = '{back}',
                format = 'upsert-avro', key_format = 'avro', schema_registry_url = '{registry_url}');
            CREATE TABLE copied (id BIGINT PRIMARY KEY, x INT) FROM KAFKA ({kafka}, topic = '{envelope}',
                format = 'debezium');
        """)
        db.step()
        assert rows(db, "SELECT * FROM copied") == rows(db, "SELECT * FROM keyed") == [(3, 30)]
        assert rows(db, "SELECT * FROM again WHERE sector = 'tech'") == [("tech", 2)]
    written = [json.loads(record.value or b"") for record in broker.read_committed(ops)]
    assert {(each["op"], each["row"]["id"]) for each in written} == {("+I", 1), ("+I", 3), ("-D", 1)}


def test_a_registry_that_does_not_answer(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    name = topic(broker, "avro")
    broker.produce(name, [(None, b"\x00\x00\x00\x00\x01\x02")])
    with tidegate.connect(tmp_path / uuid.uuid4().hex, spark=spark, clock="virtual") as db:
        db.sql(f"""
            CREATE SOURCE s (id BIGINT) FROM KAFKA (brokers = '{broker.address}', topic = '{name}', format = 'avro',
                schema_registry_url = 'http://127.0.0.1:1');
            CREATE MATERIALIZED VIEW v AS SELECT * FROM s;
        """)
        with pytest.raises(tidegate.Error) as caught:
            db.step()
        assert "http://127.0.0.1:1" in caught.value.message
        assert caught.value.hint
