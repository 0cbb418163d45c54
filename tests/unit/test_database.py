"""The Python API and time: what takes effect in a step, and what waits for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

import tidegate
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


def test_payloads_of_events_may_be_dicts(db: tidegate.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT payload.row.region FROM pgcdc_events WITH ('emit' = 'none')")
    as_text = {"channel": "c", "payload": '{"row": {"region": "us"}}'}
    db.insert("pgcdc_events", [{"channel": "c", "payload": {"row": {"region": "eu"}}}, as_text])
    db.step()
    assert sorted(db.query("SELECT * FROM v").rows()) == [("eu",), ("us",)]
