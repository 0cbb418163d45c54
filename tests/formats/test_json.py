"""JSON: valid rows, rejected rows, and round trips."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from tests.formats.records import (
    EVERYTHING,
    TRADES,
    changes,
    everything,
    reading,
    rows,
    same,
    summarize,
    without_rows,
    writing,
)
from tests.tiers import examples
from tidegate.core.schema import Column
from tidegate.errors import Error

NOON = dt.datetime(2024, 5, 1, 12)
TIMES = (Column("at", "timestamp"), Column("local", "timestamp_ntz"))


def test_valid_rows_and_errors_of_malformed_ones(spark: SparkSession) -> None:
    columns = (*TRADES, Column("price", "decimal(8,2)", nullable=False))
    records = [
        '{"id":1,"name":"pen","qty":2,"price":"0.50"}',
        '{"qty":2, "id":2, "more":[1], "price":3}\n',
        '{"id":3,"name":{"a":1},"price":1}',
        '{"id":"four","price":1}',
        '{"id":5,"qty":3000000000,"price":1}',
        '{"id":6,"name":"pen","qty":1}',
        '{"id":7,"price":1',
        "[1,2]",
        "",
        "null",
        '{"id":8,"price":1} and more',
        '{"id":9,"price":1}\n{"id":10,"price":1}',
        "pen",
        None,
        b'{"id":11,"name":"\xff","price":1}',
        b'{"id":"\xff","price":1}',
    ]
    results = rows(spark, reading(columns), [(None, record) for record in records])
    tombstone = "the record has no value (a tombstone), and trades has no primary key"
    assert [row[2:] if len(row) > 2 else row[1] for row in summarize(results, columns)] == [
        (1, "pen", 2, pytest.approx(0.5)),
        (2, None, 2, 3),
        (3, '{"a":1}', None, 1),
        "id: 'four' is not a BIGINT",
        "qty: '3000000000' is not a INT",
        "price is NULL, but the column is NOT NULL",
        "not a JSON object",
        "not a JSON object",
        "not a JSON object",
        "not a JSON object",
        "not a JSON object",
        "more than one JSON object",
        "not a JSON object",
        tombstone,
        (11, "�", None, 1),
        "id: '�' is not a BIGINT",
    ]
    raws = [row["__raw"] for row in results if row["__error"] is not None]
    assert raws[0] == '{"id":"four","price":1}' and raws[2] == '{"id":6,"name":"pen","qty":1}'
    assert raws[-1] == '{"id":"�","price":1}' and raws[-2] is None
    assert all(row["__raw"] is None for row in results if row["__error"] is None)


@pytest.mark.parametrize(
    ("unit", "number"),
    [("s", "1714564800"), ("ms", "1714564800000"), ("us", "1714564800000000"), ("ns", "1714564800000000000")],
)
def test_times_as_numbers_and_as_text(spark: SparkSession, unit: str, number: str) -> None:
    times = [
        number,
        '"2024-05-01T12:00:00Z"',
        '"2024-05-01 12:00:00"',
        '"2024-05-01T12:00:00"',
        '"2024-05-01T14:00:00+02:00"',
    ]
    records = [(None, f'{{"at":{time},"local":{time}}}') for time in times]
    records += [(None, '{"at":"soon"}'), (None, '{"local":true}'), (None, '{"at":99999999999999999999}')]
    results = summarize(rows(spark, reading(TIMES, timestamp_unit=unit), records), TIMES)
    wall = NOON.replace(hour=14)
    assert [row[2:] for row in results[:5]] == [(NOON, NOON)] * 4 + [(NOON, wall)]
    assert [row[1] for row in results[5:]] == [
        "at: 'soon' is not a TIMESTAMP",
        "local: 'true' is not a TIMESTAMP_NTZ",
        "at: '99999999999999999999' is not a TIMESTAMP",
    ]


def test_a_number_of_another_unit_is_rejected_and_fractions_of_seconds_are_read(spark: SparkSession) -> None:
    records = [(None, '{"at":1714564800000}'), (None, '{"at":1714564800.25}')]
    results = summarize(rows(spark, reading(TIMES), records), TIMES)
    assert results == [(0, "at: '1714564800000' is not a TIMESTAMP"), (1, 1, NOON.replace(microsecond=250_000), None)]


def test_patterns(spark: SparkSession) -> None:
    columns = (*TIMES, Column("day", "date"))
    options = {"timestamp_format": "dd.MM.yyyy HH:mm", "date_format": "dd.MM.yyyy"}
    records = [(None, '{"at":"01.05.2024 12:00","local":"01.05.2024 12:00","day":"01.05.2024"}')]
    records += [(None, '{"local":"2024-05-01"}'), (None, '{"day":"2024-05-01"}')]
    results = summarize(rows(spark, reading(columns, **options), records), columns)
    assert results == [
        (0, 1, NOON, NOON, NOON.date()),
        (1, "local: '2024-05-01' is not a TIMESTAMP_NTZ"),
        (2, "day: '2024-05-01' is not a DATE"),
    ]


def test_errors_inside_nested_values(spark: SparkSession) -> None:
    columns = (Column("times", "array<timestamp>"), Column("numbered", "map<int,timestamp_ntz>"))
    records = ['{"times":["2024-05-01",null]}', '{"times":["soon"]}', '{"numbered":{"a":null}}']
    records += [
        '{"numbered":{"1":null,"01":null}}',
        '{"numbered":{"1":"soon"}}',
        '{"numbered":{"1":"2024-05-01T12:00:00"}}',
    ]
    results = summarize(rows(spark, reading(columns), [(None, record) for record in records]), columns)
    kind = "is not a MAP<INT,TIMESTAMP_NTZ>"
    assert results == [
        (0, 1, [NOON.replace(hour=0), None], None),
        (1, """times: '["soon"]' is not a ARRAY<TIMESTAMP>"""),
        (2, f"""numbered: '{{"a":null}}' {kind}"""),
        (3, f"""numbered: '{{"1":null,"01":null}}' {kind}"""),
        (4, f"""numbered: '{{"1":"soon"}}' {kind}"""),
        (5, 1, None, {1: NOON}),
    ]


@examples(3)
@given(everything(60))
def test_written_rows_are_read_back(spark: SparkSession, inserted: list[tuple[object, ...]]) -> None:
    table = changes(EVERYTHING, *(("+I", *row) for row in inserted))
    records = list(writing(EVERYTHING).records(table))
    assert [key for key, _ in records] == [None] * len(inserted)
    results = rows(spark, reading(EVERYTHING), records)
    assert [row["__error"] for row in results] == [None] * len(inserted)
    for row, expected in zip(results, inserted, strict=True):
        for column, value in zip(EVERYTHING, expected, strict=True):
            assert same(without_rows(row[column.name]), value), (column, row[column.name], value)


def test_weights_and_keys_of_appended_rows() -> None:
    table = changes(TRADES, (2, "+I", 1, "pen", 5), (1, "+I", 2, 'a"b', None))
    pen, other = b'{"id":1,"name":"pen","qty":5}', b'{"id":2,"name":"a\\"b","qty":null}'
    assert list(writing(TRADES).records(table)) == [(None, pen), (None, pen), (None, other)]
    with_keys = list(writing(TRADES, primary=["id"]).records(table))
    assert [key for key, _ in with_keys] == [b'{"id":1}', b'{"id":1}', b'{"id":2}']
    pair = writing(TRADES, key="QTY, name").records(table)
    assert [key for key, _ in pair][-1] == b'{"qty":null,"name":"a\\"b"}'


def test_retractions_cannot_be_appended() -> None:
    with pytest.raises(Error) as caught:
        list(writing(TRADES).records(changes(TRADES, ("-D", 1, "pen", 5))))
    assert caught.value.code == "SINK_CANNOT_TAKE"
    assert caught.value.message == "sink trades appends rows, but step 7 takes rows back"


def test_an_empty_step_has_no_records() -> None:
    for format in ("json", "upsert", "debezium", "ops", "csv"):
        assert list(writing(TRADES, format, primary=["id"]).records(changes(TRADES))) == []
    assert isinstance(changes(TRADES), pa.Table)
