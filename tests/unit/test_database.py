"""The Python surface where time plays a part: what a step takes in, and what waits for the next one."""

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
    with tidegate.connect(spark=spark, clock="virtual") as found:
        found.sql(EVERY)
        found.insert("bids", [(1, NOON)])
        found.step()
        yield found


def test_the_virtual_clock_moves_with_the_next_step_never_before_it(db: tidegate.Database) -> None:
    before = runtime_of(db).log.last()
    db.advance_clock(timedelta(seconds=6))
    runtime_of(db).spark.pipeline.idle()
    assert runtime_of(db).log.last() == before
    db.insert("bids", [(2, NOON)])
    steps = db.step().steps
    assert [(change.op, change.row["total"]) for change in db.changes("totals", steps.start, steps.stop - 1)] == [
        ("+I", 3)
    ]


def test_the_clock_adds_up_between_steps(db: tidegate.Database) -> None:
    for _ in range(3):
        db.advance_clock(timedelta(seconds=2))
    assert db.step().steps
    assert db.query("SELECT total FROM totals").rows() == [(1,)]


def test_the_end_of_the_inputs_waits_for_the_step_too(db: tidegate.Database) -> None:
    before = runtime_of(db).log.last()
    db.end_inputs()
    runtime_of(db).spark.pipeline.idle()
    assert runtime_of(db).log.last() == before
    db.step()
    assert db.metrics()["watermarks"] == {"bids.ts": "infinity"}
    assert db.metrics()["waterlines"] == db.metrics()["watermarks"], "the former name"


def test_events_may_have_their_documents_as_dicts(db: tidegate.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT payload.row.region FROM pgcdc_events WITH ('emit' = 'none')")
    as_text = {"channel": "c", "payload": '{"row": {"region": "us"}}'}
    db.insert("pgcdc_events", [{"channel": "c", "payload": {"row": {"region": "eu"}}}, as_text])
    db.step()
    assert sorted(db.query("SELECT * FROM v").rows()) == [("eu",), ("us",)]
