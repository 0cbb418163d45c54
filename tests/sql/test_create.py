"""CREATE in every spelling."""

from __future__ import annotations

import pytest

from tests.sql.reading import error_of, one
from tidegate.sql import render
from tidegate.sql.statements import CreateRelation, CreateSink, CreateView


def test_a_source_with_a_watermark() -> None:
    create = one(
        CreateRelation,
        "CREATE SOURCE bids (item STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
    )
    assert (create.kind, create.name.text, create.connector) == ("source", "bids", None)
    (watermark,) = create.watermarks
    assert watermark.column.text == "ts"
    assert watermark.delay is not None and render(watermark.delay) == "INTERVAL '5' SECOND"


@pytest.mark.parametrize("text", ["WATERMARK FOR ts", "WATERMARK FOR ts AS ts"])
def test_a_bare_watermark(text: str) -> None:
    (watermark,) = one(CreateRelation, f"CREATE STREAM s (ts TIMESTAMP, {text})").watermarks
    assert watermark.delay is None


def test_delay_of() -> None:
    (watermark,) = one(
        CreateRelation, "CREATE SOURCE s (ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL '3' SECOND)"
    ).watermarks
    assert watermark.delay is not None and render(watermark.delay) == "INTERVAL '3' SECOND"


def test_lateness_and_hold_back_on_columns() -> None:
    create = one(
        CreateRelation,
        "CREATE TABLE p (when TIMESTAMP NOT NULL LATENESS INTERVAL '1:00' HOURS TO MINUTES, "
        "ts TIMESTAMP WATERMARK INTERVAL '1' HOUR LATENESS INTERVAL '2 hours' NOT NULL, n INT LATENESS 10 WATERMARK 5)",
    )
    when, ts, n = create.columns
    assert when.lateness is not None and render(when.lateness) == "INTERVAL '1:00' HOUR TO MINUTE"
    assert ts.lateness is not None and render(ts.lateness) == "INTERVAL '2' HOURS"
    assert ts.hold_back is not None and render(ts.hold_back) == "INTERVAL '1' HOUR" and not ts.nullable
    assert n.lateness is not None and render(n.lateness) == "10"
    assert n.hold_back is not None and render(n.hold_back) == "5"


def test_a_processing_time_column() -> None:
    _, pt = one(CreateRelation, "CREATE SOURCE s (a INT, pt AS PROCTIME())").columns
    assert pt.proctime and pt.type == "timestamp"


@pytest.mark.parametrize(
    "text",
    [
        "a INT PRIMARY KEY, b INT",
        "a INT, b INT, PRIMARY KEY (a)",
        "a INT, b INT, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED",
    ],
)
def test_primary_keys(text: str) -> None:
    create = one(CreateRelation, f"CREATE TABLE t ({text})")
    assert [name.text for name in create.primary_key] == ["a"]
    assert [(c.primary_key, c.nullable) for c in create.columns] == [(True, False), (False, True)]


def test_a_key_of_several_columns() -> None:
    assert [n.text for n in one(CreateRelation, "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a))").primary_key] == [
        "b",
        "a",
    ]


def test_from_a_connector() -> None:
    create = one(
        CreateRelation,
        "CREATE TABLE IF NOT EXISTS i (s VARCHAR PRIMARY KEY) FROM KAFKA (brokers = 'localhost:9092', topic = 'i', "
        "max_rows = 5, format = 'avro') WITH ('append_only' = 'true')",
    )
    assert create.if_not_exists
    assert create.connector is not None and create.connector.kind == "kafka" and create.connector.format == "avro"
    assert [(o.key, o.value) for o in create.connector.options] == [
        ("brokers", "localhost:9092"),
        ("topic", "i"),
        ("max_rows", "5"),
    ]
    assert [(o.key, o.value) for o in create.options] == [("append_only", "true")]


def test_with_connector() -> None:
    create = one(
        CreateRelation,
        "CREATE SOURCE s (a INT) WITH (connector = 'kafka', topic = t1, 'scan.startup.mode' = 'earliest', "
        "properties.bootstrap.server = 'x:1', idle_timeout = 10s) FORMAT PLAIN ENCODE JSON (k = 'v')",
    )
    assert create.connector is not None and create.connector.kind == "kafka" and create.connector.format == "json"
    assert {o.key: o.value for o in create.connector.options} == {
        "topic": "t1",
        "scan.startup.mode": "earliest",
        "properties.bootstrap.server": "x:1",
        "k": "v",
    }
    assert [(o.key, o.value) for o in create.options] == [("idle_timeout", "10s")]


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("FORMAT CSV", "csv"),
        ("FORMAT PLAIN ENCODE AVRO", "avro"),
        ("FORMAT DEBEZIUM ENCODE JSON", "debezium"),
        ("FORMAT DEBEZIUM ENCODE AVRO", "debezium-avro"),
        ("FORMAT UPSERT ENCODE JSON", "upsert"),
    ],
)
def test_formats(text: str, format_: str) -> None:
    create = one(CreateRelation, f"CREATE SOURCE s (a INT) FROM FILES (path = 'x') {text}")
    assert create.connector is not None and create.connector.format == format_


def test_a_connector_without_options() -> None:
    create = one(CreateRelation, "CREATE SOURCE s (a INT) FROM DATAGEN")
    assert create.connector is not None and (create.connector.kind, create.connector.options) == ("datagen", ())


def test_views() -> None:
    view = one(CreateView, "CREATE OR REPLACE MATERIALIZED VIEW v (x, y) WITH ('max_groups' = 3) AS SELECT a, b FROM t")
    assert view.materialized and view.or_replace
    assert [n.text for n in view.aliases] == ["x", "y"]
    assert [(o.key, o.value) for o in view.options] == [("max_groups", "3")]
    assert not one(CreateView, "CREATE VIEW v AS WITH q AS (SELECT 1 AS a) SELECT * FROM q").materialized


def test_a_stream_is_a_source_or_a_materialized_view() -> None:
    assert one(CreateRelation, "CREATE STREAM x (a INT)").kind == "source"
    assert one(CreateView, "CREATE STREAM x AS SELECT a FROM t").materialized
    assert [n.text for n in one(CreateView, "CREATE STREAM x (a, b) AS SELECT a, b FROM t").aliases] == ["a", "b"]


def test_sinks() -> None:
    sink = one(CreateSink, "CREATE SINK s FROM v INTO FILES (path = '/x') FORMAT JSON WITH ('a' = 'b')")
    assert sink.relation is not None and sink.relation.text == "v" and sink.query is None
    assert (sink.connector.kind, sink.connector.format, sink.options[0].key) == ("files", "json", "a")


def test_a_sink_of_a_query() -> None:
    sink = one(CreateSink, "CREATE SINK s AS SELECT * FROM v EMIT CHANGES INTO KAFKA (topic = 't')")
    assert sink.query is not None and sink.query.emit is not None
    assert sink.query.text == "SELECT * FROM v EMIT CHANGES"
    other = one(CreateSink, "CREATE SINK s AS SELECT * FROM v WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON")
    assert other.connector.kind == "kafka"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CREATE TABLE t AS SELECT 1", "NOT_SUPPORTED"),
        ("CREATE TABLE t (a INT DEFAULT 5)", "NOT_SUPPORTED"),
        ("CREATE TABLE t (a STRING COLLATE UTF8_LCASE)", "NOT_SUPPORTED"),
        ("CREATE TABLE t (a INT, b AS a + 1)", "NOT_SUPPORTED"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", "UNKNOWN_COLUMN"),
        ("CREATE SOURCE s (a INT, WATERMARK FOR b)", "UNKNOWN_COLUMN"),
        ("CREATE TABLE t (a INT, A STRING)", "SYNTAX_ERROR"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT, PRIMARY KEY (b))", "SYNTAX_ERROR"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "SYNTAX_ERROR"),
        ("CREATE SOURCE s (a INT) FORMAT JSON", "SYNTAX_ERROR"),
        ("CREATE SOURCE s (a INT) FROM FILES (format = 'csv') FORMAT JSON", "SYNTAX_ERROR"),
        ("CREATE TABLE t (a INT) WITH (path = a b)", "SYNTAX_ERROR"),
        ("CREATE TABLE a.b (x INT)", "SYNTAX_ERROR"),
    ],
)
def test_errors(text: str, code: str) -> None:
    assert error_of(text).code == code
