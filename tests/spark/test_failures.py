"""What ends a query, and what only looks like it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate

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
