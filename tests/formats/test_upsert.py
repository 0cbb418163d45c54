"""Rows that replace others by key, and tombstones."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession

from tests.formats.records import TRADES, changes, reading, rows, summarize, writing
from tidegate.core.schema import Column
from tidegate.errors import Error

WORDS = (Column("word", "string"), Column("n", "int"))
PAIRS = (Column("a", "int"), Column("at", "timestamp"), Column("v", "string", nullable=False))
UNREADABLE = "the key of the tombstone cannot be read as (id BIGINT)"


def test_values_and_tombstones(spark: SparkSession) -> None:
    records = [
        ('{"id":1}', '{"id":1,"name":"pen"}'),
        ('{"id":2}', '{"name":"from the key"}'),
        ("3", '{"name":"from a bare key"}'),
        (None, '{"id":4}'),
        ('{"id":5,"more":1}', None),
        ("6", None),
        ('"7"', None),
        (None, None),
        ("pen", None),
        ('{"other":8}', None),
        ('{"id":9}', '{"id":"nine"}'),
        ("10", "not json"),
    ]
    for format in ("json", "upsert", "UPSERT_JSON"):
        results = rows(spark, reading(TRADES, format, ["id"]), records)
        assert summarize(results) == [
            (0, 1, 1, "pen", None),
            (1, 1, 2, "from the key", None),
            (2, 1, 3, "from a bare key", None),
            (3, 1, 4, None, None),
            (4, -1, 5, None, None),
            (5, -1, 6, None, None),
            (6, UNREADABLE),
            (7, "the record has neither key nor value"),
            (8, UNREADABLE),
            (9, UNREADABLE),
            (10, "id: 'nine' is not a BIGINT"),
            (11, "not a JSON object"),
        ]
        assert [row["__raw"] for row in results[7:]] == [None, "pen", '{"other":8}', '{"id":"nine"}', "not json"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["AAPL", "AAPL", "5", "1.50", "{x", "AAPL"]),
        ({"key_format": "raw"}, ["AAPL", '"AAPL"', "5", "1.50", "{x", '{"word":"AAPL"}']),
        ({"key_format": "json"}, [None, "AAPL", "5", "1.5", None, "AAPL"]),
    ],
)
def test_keys_of_text(spark: SparkSession, options: dict[str, str], expected: list[str | None]) -> None:
    keys = ["AAPL", '"AAPL"', "5", "1.50", "{x", '{"word":"AAPL"}']
    results = rows(spark, reading(WORDS, "json", ["word"], **options), [(key, None) for key in keys])
    assert [row["word"] for row in results] == expected
    assert [row["__error"] is None for row in results] == [word is not None for word in expected]


def test_keys_of_several_columns(spark: SparkSession) -> None:
    records = [
        ('{"a":1,"at":"2024-05-01T12:00:00Z"}', None),
        ('{"a":1}', None),
        ("1", None),
        ('{"a":1,"at":1714564800}', '{"v":"x"}'),
        ('{"a":1,"at":1714564800}', '{"a":2}'),
    ]
    results = summarize(rows(spark, reading(PAIRS, "upsert", ["a", "at"]), records), PAIRS)
    noon = dt.datetime(2024, 5, 1, 12)
    unreadable = "the key of the tombstone cannot be read as (a INT, at TIMESTAMP)"
    assert results == [
        (0, -1, 1, noon, None),
        (1, unreadable),
        (2, unreadable),
        (3, 1, 1, noon, "x"),
        (4, "v is NULL, but the column is NOT NULL"),
    ]


def test_updates_are_written_as_rows_and_deletes_as_tombstones() -> None:
    table = changes(
        TRADES, ("+I", 1, "pen", 1), ("-U", 2, "cup", 1), ("+U", 2, "cup", 2), ("-D", 3, "hat", 1), ("+I", 3, "hat", 9)
    )
    encoder = writing(TRADES, "upsert", ["id"])
    assert encoder.takes == "upsert"
    assert list(encoder.records(table)) == [
        (b'{"id":1}', b'{"id":1,"name":"pen","qty":1}'),
        (b'{"id":2}', b'{"id":2,"name":"cup","qty":2}'),
        (b'{"id":3}', None),
        (b'{"id":3}', b'{"id":3,"name":"hat","qty":9}'),
    ]
    raw = list(writing(TRADES, "upsert", ["id"], key_format="raw").records(table))
    assert [key for key, _ in raw] == [b"1", b"2", b"3", b"3"]


def test_a_key_is_required() -> None:
    with pytest.raises(Error) as caught:
        reading(TRADES, "upsert")
    assert caught.value.message == "format upsert needs a key, but trades has no PRIMARY KEY"
    with pytest.raises(Error) as caught:
        writing(TRADES, "upsert")
    assert caught.value.code == "SINK_CANNOT_TAKE"
    assert (caught.value.hint or "").startswith("SELECT the key in the view")
    assert writing(TRADES, "upsert", key="name").takes == "upsert"


@pytest.mark.parametrize("key_format", ["json", "raw"])
def test_written_rows_are_read_back(spark: SparkSession, key_format: str) -> None:
    table = changes(WORDS, ("+I", '"q"', 1), ("+I", "5", 2), ("-D", "é {", 3), ("-D", '"q"', 1))
    records = list(writing(WORDS, "upsert", ["word"], key_format=key_format).records(table))
    results = summarize(rows(spark, reading(WORDS, "upsert", ["word"], key_format=key_format), records), WORDS)
    assert results == [(0, 1, '"q"', 1), (1, 1, "5", 2), (2, -1, "é {", None), (3, -1, '"q"', None)]
