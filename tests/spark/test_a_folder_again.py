"""A folder may be removed, and another pipeline made at its path, while Spark and its Python workers live on: nothing
that they remember of the first may reach the second."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tidegate

Rows = list[tuple[Any, ...]]
STEPS = 4
NOON = datetime(2024, 5, 1, 12)

CLICKS = """
    CREATE SOURCE events (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
    CREATE TABLE names (page STRING PRIMARY KEY, title STRING);
    CREATE MATERIALIZED VIEW windows AS
      SELECT window_start, COUNT(*) AS n FROM TUMBLE(events, ts, INTERVAL '1' HOUR) GROUP BY window_start;
    CREATE MATERIALIZED VIEW joined AS SELECT e.page, n.title, e.ts FROM events e JOIN names n ON e.page = n.page;
"""
"""The first pipeline: its watermark ends far ahead of all rows of the second."""

PAYMENTS = """
    CREATE SOURCE events (id BIGINT, amount BIGINT, ts TIMESTAMP, WATERMARK FOR ts);
    CREATE SOURCE others (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts);
    CREATE MATERIALIZED VIEW windows AS
      SELECT window_start, id % 3 AS part, SUM(amount) AS total
      FROM TUMBLE(events, ts, INTERVAL '10' SECOND) GROUP BY window_start, id % 3;
    CREATE MATERIALIZED VIEW joined AS
      SELECT e.id, o.ts FROM events e LEFT JOIN others o
      ON e.id = o.id AND o.ts BETWEEN e.ts AND e.ts + INTERVAL '10' SECOND;
"""
LATER = "CREATE MATERIALIZED VIEW later AS SELECT id % 3 AS part, COUNT(*) AS n FROM events GROUP BY id % 3"


def test_a_pipeline_in_a_new_folder_at_an_old_path_starts_from_nothing(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    alone = {run: run(spark, tmp_path / run.__name__) for run in (clicks, payments)}
    for run in (clicks, payments, clicks, payments):
        assert run(spark, folder) == alone[run]
        shutil.rmtree(folder)


def clicks(spark: SparkSession, folder: Path) -> dict[str, Rows]:
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        db.sql(CLICKS)
        db.insert("names", [("/", "home"), ("/a", "about")])
        for step in range(STEPS):
            moment = NOON + timedelta(days=400, hours=step)
            db.insert("events", [("/", moment), ("/a", moment), ("/b", moment)])
            db.step()
        db.end_inputs()
        db.step()
        found = contents(db, ["windows", "joined"])
        assert (len(found["windows"]), len(found["joined"])) == (STEPS, 2 * STEPS)
        return found


def payments(spark: SparkSession, folder: Path) -> dict[str, Rows]:
    with tidegate.connect(folder, spark=spark, clock="virtual") as db:
        db.sql(PAYMENTS)
        for step in range(STEPS):
            if step == STEPS // 2:
                db.sql(LATER)  # a new generation
            moment = NOON + timedelta(seconds=10 * step)
            db.insert("events", [(10 * step + number, number, moment) for number in range(9)])
            db.insert("others", [(10 * step + number, moment) for number in range(3)])
            db.step()
        db.end_inputs()
        db.step()
        found = contents(db, ["windows", "joined", "later"])
        assert found["later"] == [(0, 6), (1, 6), (2, 6)]
        assert (len(found["windows"]), len(found["joined"])) == (3 * STEPS, 9 * STEPS)
        return found


def contents(db: tidegate.Database, views: Sequence[str]) -> dict[str, Rows]:
    assert db.query("SELECT relation FROM system.late_rows").rows() == []
    return {view: sorted(db.query(f"SELECT * FROM {view}").rows(), key=repr) for view in views}
