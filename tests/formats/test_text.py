"""CSV and raw: valid rows, rejected rows, and round trips."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession

from tests.formats.records import TRADES, changes, reading, rows, summarize, writing
from tidegate.core.schema import Column
from tidegate.errors import Error

ITEMS = (*TRADES, Column("at", "timestamp"))
WORD = (Column("word", "string"),)
NOON = dt.datetime(2024, 5, 1, 12)


def test_valid_csv_rows_and_errors_of_malformed_ones(spark: SparkSession) -> None:
    records = [
        "1,pen,2,2024-05-01T12:00:00Z",
        '2,"a, ""b""",,',
        "3,pen",
        "4,pen,1,,more",
        "five,pen,1,",
        "6,pen,1,soon",
        "",
        None,
    ]
    results = summarize(rows(spark, reading(ITEMS, "csv"), [(None, record) for record in records]), ITEMS)
    assert results == [
        (0, 1, 1, "pen", 2, NOON),
        (1, 1, 2, 'a, "b"', None, None),
        (2, "expected 4 fields"),
        (3, "expected 4 fields"),
        (4, "id: 'five' is not a BIGINT"),
        (5, "at: 'soon' is not a TIMESTAMP"),
        (6, "expected 4 fields"),
        (7, "the record has no value (a tombstone), and trades has no primary key"),
    ]


def test_csv_of_another_dialect_with_keys_of_text(spark: SparkSession) -> None:
    options = {"delimiter": ";", "quote": "'", "null_value": "-", "timestamp_format": "dd.MM.yyyy HH:mm"}
    records = [(None, "1;'a;b';-;01.05.2024 12:00"), ("2", None), ('{"id":3}', None), ("x", None)]
    results = summarize(rows(spark, reading(ITEMS, "CSV", ["id"], **options), records), ITEMS)
    assert results == [
        (0, 1, 1, "a;b", None, NOON),
        (1, -1, 2, None, None, None),
        (2, -1, 3, None, None, None),
        (3, "the key of the tombstone cannot be read as (id BIGINT)"),
    ]


def test_written_csv_is_read_back(spark: SparkSession) -> None:
    inserted = [(1, "pen", 2, NOON), (2, 'a, "b"\nc', None, None), (3, " x ", -1, NOON)]
    records = list(writing(ITEMS, "csv").records(changes(ITEMS, *(("+I", *row) for row in inserted))))
    assert records[0] == (None, b"1,pen,2,2024-05-01 12:00:00")
    results = summarize(rows(spark, reading(ITEMS, "csv"), records), ITEMS)
    assert [row[2:] for row in results] == inserted


def test_raw_text_and_bytes(spark: SparkSession) -> None:
    records: list[tuple[str | None, bytes | None]] = [(None, b"a\nb"), (None, b""), (None, b"\xff"), (None, None)]
    assert summarize(rows(spark, reading(WORD, "raw"), records), WORD)[:3] == [
        (0, 1, "a\nb"),
        (1, 1, ""),
        (2, "word: not UTF-8 text"),
    ]
    blobs = (Column("blob", "binary"),)
    assert summarize(rows(spark, reading(blobs, "raw"), records[:3]), blobs) == [
        (0, 1, b"a\nb"),
        (1, 1, b""),
        (2, 1, b"\xff"),
    ]
    assert list(writing(WORD, "raw").records(changes(WORD, ("+I", "é"), ("+I", None)))) == [
        (None, "é".encode()),
        (None, b""),
    ]


def test_columns_that_csv_and_raw_cannot_hold() -> None:
    for make in (reading, writing):
        with pytest.raises(Error) as caught:
            make(TRADES, "raw")
        assert caught.value.code == "INVALID_OPTION"
        assert caught.value.message == (
            "format raw needs exactly one column, of type STRING or BINARY,"
            " but trades has (id BIGINT, name STRING, qty INT)"
        )
        with pytest.raises(Error) as caught:
            make((Column("tags", "array<int>"),), "csv")
        assert caught.value.message == "format csv cannot hold column tags, which is ARRAY<INT>"
