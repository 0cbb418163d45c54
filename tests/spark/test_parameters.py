"""Parameters that Spark binds: values arrive unchanged, in every statement that takes parameters."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.database import runtime_of

EVIL = "it's \\ \"quoted\" `x` ? :name ${y} \n'); DROP TABLE t; --"
NOON = dt.datetime(2024, 5, 1, 12, 0, 3, 250_001)


@pytest.fixture(scope="module")
def db(spark: SparkSession) -> Iterator[tidegate.Database]:
    with tidegate.connect(spark=spark) as database:
        database.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, name STRING, ts TIMESTAMP)")
        database.sql("CREATE SOURCE bids (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        yield database


VALUES = [
    None,
    True,
    7,
    -(1 << 63),
    1.5,
    float("inf"),
    EVIL,
    "",
    b"\x00\xff",
    Decimal("12345678901234567890.123456789"),
    dt.date(1969, 12, 31),
    dt.timedelta(days=1, microseconds=5),
]


def test_values_are_bound_unchanged(db: tidegate.Database) -> None:
    marks = ", ".join("?" * len(VALUES))
    assert db.sql(f"SELECT {marks}", VALUES).fetchone() == tuple(VALUES)
    names = {f"v{number}": value for number, value in enumerate(VALUES)}
    text = ", ".join(f":{name}" for name in names)
    assert db.query(f"SELECT {text}", params=names).fetchone() == tuple(VALUES)


def test_a_time_without_a_zone_is_utc(db: tidegate.Database) -> None:
    tokyo = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=9)))
    query = "SELECT CAST(? AS STRING), CAST(? AS STRING)"
    assert db.sql(query, [NOON, tokyo]).fetchall() == [("2024-05-01 12:00:03.250001", "2024-05-01 03:00:03.250001")]


def test_every_statement_with_values(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES (?, ?, ?), (2, ?, NULL)", [1, EVIL, NOON, "b"])
    db.sql("INSERT INTO t SELECT :k, :name, :ts WHERE :k > :least", {"k": 3, "name": "c", "ts": None, "least": 0})
    db.sql("UPDATE t SET name = :name WHERE k = :k", {"name": "B'", "k": 2})
    db.sql("DELETE FROM t WHERE k = ?", [3])
    db.sql("ADVANCE bids.ts TO ?", [NOON])
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, name FROM t")
    db.step()
    assert db.query("SELECT * FROM v WHERE name IN (?, ?) ORDER BY k LIMIT ?", params=[EVIL, "B'", 9]).rows() == [
        (1, EVIL),
        (2, "B'"),
    ]
    assert db.sql("SELECT k FROM t WHERE ts = :ts", {"ts": NOON}).fetchall() == [(1,)]
    headers = [header for _, header, _ in runtime_of(db).inserts.entries(0, runtime_of(db).inserts.head())]
    assert headers[-1].advance == {"bids.ts": round(NOON.replace(tzinfo=dt.UTC).timestamp() * 1e6)}


def test_the_size_of_a_window_cannot_be_a_parameter(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.SqlError) as caught:
        db.sql("SELECT COUNT(*) FROM TUMBLE(bids, ts, ?) GROUP BY window_start", ["10 seconds"])
    assert "^" in str(caught.value)
