"""Queries without expressions are answered without Spark, and the answer is the same as Spark's."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.plans.workbench import RELATIONS, apply
from tidegate import bind
from tidegate.catalog import Catalog
from tidegate.sql import parse
from tidegate.sql.statements import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
TYPES = """
  i INT, big BIGINT, f FLOAT, d DOUBLE, m DECIMAL(12,3), s STRING, v VARCHAR(9), b BOOLEAN, day DATE, ts TIMESTAMP,
  ntz TIMESTAMP_NTZ, raw BINARY, list ARRAY<STRING>, map MAP<STRING,INT>, pair STRUCT<x: INT, y: ARRAY<DOUBLE>>
"""
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ROWS = [
    (1, 2**40, 1.5, NAN, Decimal("1.250"), "b", "é", True, date(2024, 1, 1), NOON, datetime(1969, 1, 1), b"\0\xff",
     ["x", None], {"k": 1}, {"x": 1, "y": [1.0, None]}),
    (2, -1, -0.0, 2.5, None, "B", "z", False, date(1960, 2, 3), NOON - timedelta(days=9999), None, b"", [], {}, None),
    (3, 0, 0.0, -2.5, Decimal("-9.001"), "", None, None, None, None, datetime(2030, 1, 1), None, None, None,
     {"x": None, "y": None}),
    (4, None, None, None, Decimal("0.001"), None, "", True, date(2024, 1, 2), NOON + timedelta(microseconds=1), None,
     b"a", ["a"], {"a": None}, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Catalog:
    from tidegate.spark.analyzer import SparkAnalyzer

    return apply(RELATIONS, Catalog(), SparkAnalyzer(spark))


@pytest.mark.parametrize(
    ("sql", "direct"),
    [
        ("SELECT * FROM users", True),
        ("SELECT name, id FROM Users AS u", True),
        ("SELECT * FROM users ORDER BY name DESC NULLS LAST, id LIMIT 3 OFFSET 1", True),
        ("SELECT name FROM users ORDER BY id", True),
        ("SELECT relation FROM system.late_rows", True),
        ("SELECT id + 1 FROM users", False),
        ("SELECT id AS n FROM users", False),
        ("SELECT u.id FROM users AS u", False),
        ("SELECT ID FROM users", False),
        ("SELECT * EXCEPT (id) FROM users", False),
        ("SELECT DISTINCT name FROM users", False),
        ("SELECT * FROM users WHERE id = 1", False),
        ("SELECT * FROM users AS u (a, b)", False),
        ("SELECT * FROM users ORDER BY lower(name)", False),
        ("SELECT * FROM users ORDER BY 1", False),
        ("SELECT * FROM users LIMIT 1 + 1", False),
        ("SELECT * FROM users TABLESAMPLE (1 ROWS)", False),
        ("SELECT * FROM users, bids", False),
        ("SELECT * FROM (SELECT * FROM users)", False),
        ("SELECT 1", False),
    ],
)
def test_which_queries_need_no_spark(sql: str, direct: bool, catalog: Catalog) -> None:
    statement = parse(sql).statements[0]
    assert isinstance(statement, Select)
    assert (bind.bind_select(statement.query, catalog, sources=True).direct is not None) == direct


def test_the_answer_is_that_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as db:
        db.sql(f"CREATE TABLE t ({TYPES}); CREATE TABLE none ({TYPES})")
        db.insert("t", ROWS)
        db.step()
        for table in ("t", "none"):
            direct, by_spark = (db.query(f"SELECT * FROM {table}{where}").arrow() for where in ("", " WHERE true"))
            assert direct.schema == by_spark.schema
            assert sorted(map(str, direct.to_pylist())) == sorted(map(str, by_spark.to_pylist()))
        for column in ("i", "big", "f", "d", "m", "s", "b", "day", "ts", "ntz"):
            for how in ("", "DESC", "NULLS LAST", "DESC NULLS FIRST"):
                query = f"FROM t ORDER BY {column} {how}, i LIMIT 3 OFFSET 1"
                direct, by_spark = db.query(f"SELECT i, s {query}"), db.query(f"SELECT i, (s) AS s {query}")
                assert direct.rows() == by_spark.rows(), query


def test_a_folder_is_read_without_a_jvm(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as db:
        db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a + 1 AS b FROM t")
        db.insert("t", [(2,), (1,)])
        db.step()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with tidegate.connect(tmp_path / "data", read_only=True) as db:
        assert db.query("SELECT b FROM v ORDER BY b DESC").rows() == [(3,), (2,)]
        with pytest.raises(tidegate.Error, match="Java"):
            db.query("SELECT b + 1 FROM v")


def test_a_reader_sees_views_that_are_created_after_it_has_opened(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as db:
        db.sql("CREATE TABLE t (a INT)")
        with tidegate.connect(tmp_path / "data", read_only=True) as reader:
            assert reader.tables() == ["t"]
            db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
            db.insert("t", [(1,)])
            db.step()
            assert reader.query("SELECT a FROM v").rows() == [(1,)]
            db.sql("DROP VIEW v")
            with pytest.raises(tidegate.Error, match="no relation v"):
                reader.query("SELECT a FROM v")
