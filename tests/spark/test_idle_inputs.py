"""A running pipeline with an idle input."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_window_of_an_idle_input_closes_and_then_no_step_follows(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.run_script(
            """
            CREATE SOURCE readings (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('idle_timeout' = '1s');
            CREATE SOURCE orders (id INT);
            CREATE MATERIALIZED VIEW per_window AS
              SELECT count(*) AS n FROM TUMBLE(readings, ts, INTERVAL '2' SECOND)
              GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
            CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM orders;
            INSERT INTO readings VALUES (1, TIMESTAMP '2026-01-01 00:00:00');
            """
        )
        db.start()
        inserted, deadline = 0, time.monotonic() + 60
        while not (closed := db.query("SELECT n FROM per_window").rows()) and time.monotonic() < deadline:
            db.insert("orders", [(inserted,)])
            inserted += 1
            assert db.wait(0.3)
        assert closed == [(1,)]
        while db.query("SELECT n FROM counted").rows() != [(inserted,)] and time.monotonic() < deadline:
            assert db.wait(0.1)
        assert db.wait(2)
        steps = db.metrics()["step"]
        assert db.wait(2)
        assert db.metrics()["step"] == steps
