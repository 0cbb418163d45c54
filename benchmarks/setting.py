"""What all benchmarks share: one Spark application, generated rows, databases in a temporary folder."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tidegate.spark import compat
from tidegate.spark.session import connect

ROWS = 1_000_000
SPARKS_STATE = {**compat.SPARKS_STATE, "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"}
"""What Spark's own queries keep state in."""
FILES = 8


class Setting:
    """One Spark application on two cores; every database and checkpoint under one temporary folder."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def __enter__(self) -> Setting:
        self.root = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        config = {"spark.driver.memory": "4g", **SPARKS_STATE}
        self.spark: SparkSession = connect("local[2]", config, self.root / "spark.log")
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        return self

    def __exit__(self, *_: object) -> None:
        self.spark.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def parquet(self, keys: int, files: int = FILES, rows: int = ROWS) -> Path:
        """Files of one million rows (ts, k, v) each, with uniformly random keys; made once."""
        folder = self._data / f"keys_{keys}_{files}x{rows}"
        if not folder.exists():
            draft = folder.with_name(folder.name + ".draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            random = np.random.default_rng(1)
            for number in range(files):
                _rows(random, number, keys, rows).write_parquet(draft / f"{number:03}.parquet")
            draft.rename(folder)
        return folder

    def database(self, name: str) -> tidegate.Database:
        shutil.rmtree(self.root / name, ignore_errors=True)
        return tidegate.connect(self.root / name, spark=self.spark)

    def spark_query(self, name: str, frame: DataFrame, mode: str) -> list[tuple[int, float]]:
        """Runs a query of Spark's own over all there is; (rows, seconds) of each micro-batch."""
        checkpoint = self.root / f"checkpoint-{name}"
        shutil.rmtree(checkpoint, ignore_errors=True)
        query = (
            frame.writeStream.format("noop")
            .outputMode(mode)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches(query.recentProgress)


def batches(progress: object) -> list[tuple[int, float]]:
    """(rows, seconds) of the micro-batches that had rows."""
    found = [(each.numInputRows, each.durationMs["triggerExecution"] / 1000) for each in progress]  # type: ignore[attr-defined]
    return [item for item in found if item[0] > 0]


def throughput(found: list[tuple[int, float]]) -> float:
    """Rows per second of the median micro-batch, the first two left out: the JVM is still warming up in them."""
    return statistics.median(rows / seconds for rows, seconds in found[2:])


def seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _rows(random: np.random.Generator, number: int, keys: int, rows: int) -> pl.DataFrame:
    start = 1_700_000_000_000_000 + number * 60_000_000
    return pl.DataFrame(
        {
            "ts": pl.Series(np.sort(random.integers(start, start + 60_000_000, rows))).cast(pl.Datetime("us", "UTC")),
            "k": random.integers(0, keys, rows),
            "v": random.random(rows) * 100,
        }
    )
