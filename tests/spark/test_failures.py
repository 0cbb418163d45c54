"""What ends a query, and what only looks like it."""

from __future__ import annotations

import contextlib
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.servers.processes import family

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_failure_is_reported_whatever_words_are_in_it(spark: SparkSession, tmp_path: Path) -> None:
    """StopRequested is what ends a query on request."""
    with tidegate.connect(tmp_path / "data", spark=spark, clock="virtual") as db:
        db.sql("CREATE SOURCE s (zone STRING, ts TIMESTAMP)")
        db.sql(
            "CREATE MATERIALIZED VIEW v WITH ('on_error' = 'stop') AS SELECT from_utc_timestamp(ts, zone) AS ts FROM s"
        )
        db.insert("s", [("StopRequested", datetime(2024, 5, 1, tzinfo=UTC))])
        with pytest.raises(tidegate.Error) as failure:
            db.step()
        assert failure.value.code == "EXPRESSION_FAILED" and "StopRequested" in failure.value.message


def test_a_start_without_workers_fails_with_a_code_and_the_next_one_works(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the Python processes that it asks about data sources, and sees too late that they were killed."""
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.sql("CREATE TABLE t (a INT)")
        db.insert("t", [(1,)])
        db.step()
        db.stop()
        killed = kill_workers()
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        db.insert("t", [(2,)])
        for _ in range(killed + 1):
            try:
                db.step()
                break
            except tidegate.Error as error:
                assert error.code == "PIPELINE_FAILED"
                assert "\n" not in error.message
        assert db.query("SELECT a FROM v ORDER BY a").rows() == [(1,), (2,)]


def kill_workers() -> int:
    """Kill the Python processes that Spark has started from here; how many there were."""
    killed = 0
    for process in family(os.getpid()):
        if process.is_worker and process.parent != os.getpid():  # Not the server from which they are forked.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
    return killed
