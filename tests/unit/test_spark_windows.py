"""Windows in batch queries of Spark, compared with windows computed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.sql.reading import query
from tidegate.bind.adhoc.windows import spark_windows
from tidegate.sql import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIONS = {
    "bids": ("item", "price", "ts"),
    "naive": ("id", "at", "day"),
    "per_second": ("item", "window_start", "window_end", "total"),
}
BIDS = """
    ('a', 1, TIMESTAMP '1970-01-01 00:00:03'), ('a', 2, TIMESTAMP '1970-01-01 00:00:09.999999'),
    ('b', 3, TIMESTAMP '1970-01-01 00:00:10'), ('a', 4, TIMESTAMP '1970-01-01 00:00:21'),
    ('b', 5, TIMESTAMP '1969-12-31 23:59:59.999999'), ('b', 6, NULL)
"""
NAIVE = """
    (1, TIMESTAMP_NTZ '2024-02-29 23:59:59.999999', DATE '2024-02-29'),
    (2, TIMESTAMP_NTZ '1969-11-30 12:00:00', DATE '1969-11-30')
"""
PER_SECOND = """
    ('a', TIMESTAMP '1970-01-01 00:00:08', TIMESTAMP '1970-01-01 00:00:09', 10),
    ('b', TIMESTAMP '1970-01-01 00:00:08', TIMESTAMP '1970-01-01 00:00:09', 20),
    ('a', TIMESTAMP '1970-01-01 00:00:09', TIMESTAMP '1970-01-01 00:00:10', 40)
"""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> SparkSession:
    for name, values in (("bids", BIDS), ("naive", NAIVE), ("per_second", PER_SECOND)):
        spark.sql(f"SELECT * FROM VALUES {values} AS t ({', '.join(RELATIONS[name])})").createOrReplaceTempView(name)
    return spark


def run(spark: SparkSession, text: str) -> list[str]:
    """The sorted rows, with window bounds as seconds since 1970 if they are close to it."""
    sql = render(spark_windows(query(text).select, lambda name: RELATIONS.get(name.lower()), lambda _: ("ts",)))
    return sorted(" ".join(_render(value) for value in row) for row in spark.sql(sql).collect())


def _render(value: object) -> str:
    near = isinstance(value, datetime) and abs(value - EPOCH) < timedelta(hours=1)
    return f"{(value - EPOCH).total_seconds():.8g}" if near else str(value)  # type: ignore[operator]


EPOCH = datetime(1970, 1, 1)
TUMBLED = ["-10 0 5", "0 10 3", "10 20 3", "20 30 4"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window_start, window_end, SUM(price) FROM TUMBLE(bids, ts, INTERVAL '10' SECOND) GROUP BY window_start",
        "SELECT window_start, window_end, SUM(price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 10s)) w GROUP BY 1",
        "SELECT TUMBLE_START(), TUMBLE_END(ts, '10 seconds'), SUM(price) FROM bids GROUP BY TUMBLE(ts, '10 seconds')",
        "SELECT window.start, window.end, SUM(price) FROM bids GROUP BY window(ts, '10 seconds')",
        "SELECT WINDOWSTART, WINDOWEND, SUM(b.price) FROM bids b WINDOW TUMBLING (SIZE 10 SECONDS)",
        "SELECT window_start, window_end, SUM(price) FROM bids EVENT TIME BY ts TUMBLING WINDOW 10s",
        "WITH w AS (FROM TUMBLE(bids, ts, 10s)) SELECT window_start, window_end, SUM(price) FROM w GROUP BY 1, 2",
        "SELECT window_start, window_end, SUM(price) FROM TUMBLE((SELECT ts, price FROM bids), ts, 10s) GROUP BY 1, 2",
        "SELECT window_start, window_end, SUM(price) FROM TUMBLE(bids, ts, 10s, 1h30m) GROUP BY window_end",
    ],
)
def test_tumble_in_every_spelling(rows: SparkSession, text: str) -> None:
    assert run(rows, text) == TUMBLED


def test_a_negative_offset_moves_windows_back(rows: SparkSession) -> None:
    text = "SELECT window_start, COUNT(*) FROM TUMBLE(bids, ts, 10s, INTERVAL '-1' SECOND) GROUP BY window_start"
    assert run(rows, text) == ["-1 2", "19 1", "9 2"]


def test_hop_has_a_row_in_every_window_that_covers_it(rows: SparkSession) -> None:
    text = "SELECT window_start, window_end FROM HOP(bids, ts, 4s, 10s) WHERE price = 2"
    assert run(rows, text) == ["0 10", "4 14", "8 18"]
    before = "SELECT window_start, window_end FROM HOP(bids, ts, 4s, 10s) WHERE price = 5"
    assert run(rows, before) == ["-4 6", "-8 2"]


def test_cumulate_ends_grow_to_the_size(rows: SparkSession) -> None:
    text = "SELECT window_start, window_end FROM CUMULATE(bids, ts, 5s, 15s) WHERE price = 2"
    assert run(rows, text) == ["0 10", "0 15"]
    edge = "SELECT window_start, window_end FROM CUMULATE(bids, ts, 5s, 15s) WHERE price = 3"
    assert run(rows, edge) == ["0 15"]


def test_months_follow_the_calendar(rows: SparkSession) -> None:
    text = "SELECT id, window_start, window_end FROM TUMBLE(naive, at, INTERVAL '1' QUARTER)"
    assert run(rows, text) == [
        "1 2024-01-01 00:00:00 2024-04-01 00:00:00",
        "2 1969-10-01 00:00:00 0",
    ]
    hops = "SELECT window_start FROM HOP(naive, day, INTERVAL '1' MONTH, INTERVAL '2' MONTH, INTERVAL '12' HOUR)"
    assert run(rows, hops) == [
        "1969-10-01 12:00:00",
        "1969-11-01 12:00:00",
        "2024-01-01 12:00:00",
        "2024-02-01 12:00:00",
    ]


def test_types_of_edges(rows: SparkSession) -> None:
    def types(text: str) -> list[str]:
        sql = render(spark_windows(query(text).select, lambda name: RELATIONS.get(name)))
        return [field.dataType.simpleString() for field in rows.sql(sql).schema.fields]

    for window in ("TUMBLE(naive, {}, 10s)", "SESSION(naive, {}, 10s)"):
        assert types(f"SELECT window_start, window_end FROM {window.format('at')}") == ["timestamp_ntz"] * 2
        assert types(f"SELECT window_start, window_end FROM {window.format('day')}") == ["timestamp"] * 2


def test_sessions_are_per_key(rows: SparkSession) -> None:
    text = "SELECT item AS i, window_start, window_end, COUNT(*) FROM SESSION(bids, ts, 7s) GROUP BY i, 2, 3"
    assert run(rows, text) == [
        "a 21 28 1",
        "a 3 16.999999 2",
        "b -1e-06 6.999999 1",
        "b 10 17 1",
    ]


def test_a_row_one_gap_later_starts_a_new_session(rows: SparkSession) -> None:
    text = "SELECT SESSION_START(ts, {0}), COUNT(*) FROM bids WHERE price IN (3, 4) GROUP BY SESSION(ts, {0})"
    assert run(rows, text.format("11s")) == ["10 1", "21 1"]
    assert run(rows, text.format("INTERVAL '11.000001' SECOND")) == ["10 2"]


def test_sessions_contain_the_rows_that_pass_where(rows: SparkSession) -> None:
    text = (
        "SELECT b.window_start, price FROM SESSION(bids, ts, 7s) b WHERE b.price <> 2 AND window_start >= '1970-01-01'"
    )
    assert run(rows, text) == ["10 3", "21 4"]


def test_windows_over_windows(rows: SparkSession) -> None:
    text = "SELECT window_start, window_end, SUM(total) FROM TUMBLE(per_second, window_end, 10s) GROUP BY window_start"
    assert run(rows, text) == ["0 10 30", "10 20 40"]
    assert run(rows, "SELECT * FROM TUMBLE(per_second, window_start, 10s) WHERE item = 'b'") == ["b 20 0 10"]
    nested = "SELECT window_end, COUNT(*) FROM TUMBLE(TABLE(HOP(bids, ts, 5s, 10s)), window_start, 1m) GROUP BY 1"
    assert run(rows, nested) == ["0 3", "60 7"]


def test_a_query_without_windows_is_not_changed(rows: SparkSession) -> None:
    text = "SELECT item, COUNT(*) FROM bids GROUP BY item"
    assert render(spark_windows(query(text).select, lambda _: None)) == text
