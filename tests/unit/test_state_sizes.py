"""What `system.state` and `system.views` say about state, in the process that runs a pipeline and in others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = "SELECT operator, views, bucket, rows FROM system.state ORDER BY operator, bucket"
PER_VIEW = "SELECT name, state_rows FROM system.views ORDER BY name"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    """Two views over one aggregate of ten groups in two partitions, and a view without state; two steps."""
    config = {"spark.sql.shuffle.partitions": "2"}
    with tidegate.connect(tmp_path / "db", spark=spark, config=config, clock="virtual") as db:
        db.sql("""
            CREATE SOURCE s (k INT, v INT);
            CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
            CREATE MATERIALIZED VIEW large AS SELECT k, SUM(v) AS total FROM s GROUP BY k HAVING SUM(v) > 5;
            CREATE MATERIALIZED VIEW passed AS SELECT k FROM s;
        """)
        for count in (4, 10):
            db.insert("s", [(number, number) for number in range(count)])
            db.step()
        check(db)
        assert sum(row[3] for row in db.query(f"{BUCKETS} AS OF STEP 1").rows()) == 4
    return tmp_path / "db"


def check(db: tidegate.Database) -> None:
    rows = db.query(BUCKETS).rows()
    assert {views for _, views, _, _ in rows} == {"large, sums"}
    assert all(operator.startswith("aggregate by k: sum(v)") for operator, _, _, _ in rows)
    assert (len({bucket for _, _, bucket, _ in rows}), sum(row[3] for row in rows)) == (2, 10)
    assert all(row[3] for row in rows), "ten keys fall into both buckets"
    assert db.query(PER_VIEW).rows() == [("large", 10), ("passed", 0), ("sums", 10)]


def test_another_process_sees_the_state_without_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no-java-is-needed")
    with tidegate.connect(folder, read_only=True) as db:
        rows = db.query("SELECT bucket, rows FROM system.state ORDER BY bucket").rows()
        assert sum(count for _, count in rows) == 10
        assert db.query(PER_VIEW).rows() == [("large", 10), ("passed", 0), ("sums", 10)]


def test_sizes_are_known_after_a_restart(spark: SparkSession, folder: Path) -> None:
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        check(db)
