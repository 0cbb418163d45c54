"""The Python API and time: what takes effect in a step, and what waits for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.processes import wait_until
from tidegate.database import runtime_of

EVERY = """
    CREATE SOURCE bids (price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
    CREATE MATERIALIZED VIEW totals AS
      SELECT window_start, SUM(price) AS total FROM TUMBLE(bids, ts, INTERVAL '10' SECOND) GROUP BY window_start
      EMIT EVERY INTERVAL '5' SECOND;
"""
NOON = datetime(2020, 1, 1, 12)


@pytest.fixture
def db(spark: SparkSession) -> Iterator[tidegate.Database]:
    with tidegate.connect(spark=spark, clock="virtual") as database:
        database.sql(EVERY)
        database.insert("bids", [(1, NOON)])
        database.step()
        yield database


def test_the_virtual_clock_moves_with_the_next_step_and_not_before(db: tidegate.Database) -> None:
    before = runtime_of(db).log.last()
    db.advance_clock(timedelta(seconds=6))
    runtime_of(db).spark.pipeline.idle()
    assert runtime_of(db).log.last() == before
    db.insert("bids", [(2, NOON)])
    steps = db.step().steps
    assert [(change.op, change.row["total"]) for change in db.changes("totals", steps.start, steps.stop - 1)] == [
        ("+I", 3)
    ]


def test_clock_advances_between_steps_add_up(db: tidegate.Database) -> None:
    for _ in range(3):
        db.advance_clock(timedelta(seconds=2))
    assert db.step().steps
    assert db.query("SELECT total FROM totals").rows() == [(1,)]


def test_the_end_of_the_inputs_takes_effect_in_the_next_step(db: tidegate.Database) -> None:
    before = runtime_of(db).log.last()
    db.end_inputs()
    runtime_of(db).spark.pipeline.idle()
    assert runtime_of(db).log.last() == before
    db.step()
    assert db.metrics()["watermarks"] == {"bids.ts": "infinity"}
    assert db.metrics()["waterlines"] == db.metrics()["watermarks"], "the former name"


ENDING = """
    CREATE SOURCE orders (id INT, ts TIMESTAMP, WATERMARK FOR ts);
    CREATE SOURCE shipments (id INT, ts TIMESTAMP LATENESS INTERVAL '5' SECOND);
    CREATE MATERIALIZED VIEW per_minute AS
      SELECT window_start, COUNT(*) AS n FROM TUMBLE(orders, ts, INTERVAL '1' MINUTE) GROUP BY window_start;
    CREATE MATERIALIZED VIEW shipped AS
      SELECT o.id, s.ts FROM orders o LEFT JOIN shipments s
      ON o.id = s.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE;
    CREATE MATERIALIZED VIEW all_shipments AS SELECT id, ts FROM shipments EMIT ON WINDOW CLOSE;
"""
"""A window, an interval join and LATENESS, none of which accepts a row once its input has ended."""


def assert_all_came(database: tidegate.Database) -> None:
    assert database.query("SELECT n FROM per_minute").rows() == [(2,)]
    assert database.query("SELECT id, ts IS NULL FROM shipped ORDER BY id").rows() == [(1, False), (2, True)]
    assert database.query("SELECT id FROM all_shipments").rows() == [(1,)]
    assert database.query("SELECT relation FROM system.late_rows").rows() == []


@pytest.mark.parametrize("again", [False, True], ids=["", "restarted"])
def test_rows_that_come_with_the_end_of_the_inputs_are_in_time(
    spark: SparkSession, tmp_path: Path, again: bool
) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as database:
        database.sql(ENDING)
        database.insert("orders", [(1, NOON)])
        database.end_inputs()
        database.insert("orders", [(2, NOON)])
        database.insert("shipments", [(1, NOON)])
        if not again:
            database.step()
            assert_all_came(database)
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as database:
        database.step()
        assert_all_came(database)
        database.insert("orders", [(3, NOON)])
        database.step()
        assert database.query("SELECT DISTINCT relation FROM system.late_rows").rows() == [("orders",)]


@pytest.mark.parametrize("running", [True, False], ids=["", "and starts later"])
def test_a_running_pipeline_reads_what_was_inserted_before_its_inputs_end(spark: SparkSession, running: bool) -> None:
    with tidegate.connect(spark=spark) as database:
        database.sql(ENDING)
        if not running:
            database.insert("orders", [(1, NOON), (2, NOON)])
            database.step()
            database.insert("shipments", [(1, NOON)])
            database.step()
            database.end_inputs()
        with database.running():
            if running:
                database.insert("orders", [(1, NOON), (2, NOON)])
                database.insert("shipments", [(1, NOON)])
                database.end_inputs()
            wait_until(lambda: database.metrics()["watermarks"].get("orders.ts") == "infinity", "the end")
        database.step()
        assert_all_came(database)


def test_the_inputs_of_a_pipeline_without_views_end_at_once(spark: SparkSession) -> None:
    with tidegate.connect(spark=spark, clock="virtual") as database:
        database.end_inputs()
        database.step()
        database.sql(ENDING)
        database.insert("orders", [(1, NOON)])
        database.step()
        assert database.query("SELECT DISTINCT relation FROM system.late_rows").rows() == [("orders",)]


def test_payloads_of_events_may_be_dicts(db: tidegate.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT payload.row.region FROM pgcdc_events WITH ('emit' = 'none')")
    as_text = {"channel": "c", "payload": '{"row": {"region": "us"}}'}
    db.insert("pgcdc_events", [{"channel": "c", "payload": {"row": {"region": "eu"}}}, as_text])
    db.step()
    assert sorted(db.query("SELECT * FROM v").rows()) == [("eu",), ("us",)]
