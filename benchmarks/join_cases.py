"""Benchmarks of joins: intervals, early fire, lookups, and state that stays flat."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from cases import run_all
from pyspark.sql import functions as F
from run import Figure
from setting import ROWS, Setting, seconds_of, throughput

HALF = ROWS // 2
KEYS = 100_000
STEP_US = 60_000_000
START_US = 1_700_000_000_000_000
FILES = 6
SOURCE = "CREATE SOURCE {0} (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
FROM_FILES = "FROM FILES (path = '{1}', format = 'parquet', max_files_per_step = 1);"
BOUNDS = "ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '10' SECOND AND b.ts + INTERVAL '10' SECOND"


def interval(setting: Setting) -> list[Figure]:
    """An inner interval join, 2 x 500 000 rows a step, beside Spark's own join of two streams."""
    folders = {name: _half(setting, name, seed) for name, seed in (("a", 3), ("b", 4))}
    ours = throughput(_ours(setting, "interval", folders, f"SELECT a.k, a.v, b.v AS w FROM a JOIN b {BOUNDS}"))
    peer = _spark(setting, folders)
    name = "interval join, 2 x 500 000 rows a step"
    return [Figure(name, ours / 1e6, peer / 1e6, ours / peer, 2.0, True, "M rows/s", "beside Spark's own")]


def early_fire(setting: Setting) -> list[Figure]:
    """A left outer interval join that fires early, beside one that does not."""
    folders = {name: _half(setting, name, seed) for name, seed in (("a", 3), ("b", 4))}
    times = {}
    for name, hint in (("plain", ""), ("early", "/*+ EARLY_FIRE('delay' = '5s') */ ")):
        sql = f"SELECT {hint}a.k, a.v, b.v AS w FROM a LEFT JOIN b {BOUNDS}"
        times[name] = ROWS / throughput(_ours(setting, name, folders, sql))
    ratio = times["early"] / times["plain"]
    name = "left interval join with EARLY_FIRE"
    return [Figure(name, times["early"], times["plain"], ratio, 1.5, False, "s", "beside without")]


def lookup(setting: Setting) -> list[Figure]:
    """A million rows a step looked up in a table of a million, beside Spark's static broadcast join."""
    folder = setting.parquet(ROWS)
    table = pl.DataFrame({"k": np.arange(ROWS), "name": np.arange(ROWS) * 7}).to_arrow()
    with setting.database("lookup") as db:
        db.sql(
            "CREATE TABLE names (k BIGINT PRIMARY KEY, name BIGINT);"
            f"CREATE SOURCE events (ts TIMESTAMP, k BIGINT, v DOUBLE) FROM FILES (path = '{folder}',"
            " format = 'parquet', max_files_per_step = 1)"
        )
        db.insert("names", table)
        db.step()
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT e.k, e.v, n.name FROM events e JOIN names n ON e.k = n.k")
        ours = throughput(run_all(db))
    static = setting.spark.createDataFrame(table).cache()
    static.count()
    stream = setting.spark.readStream.schema("ts timestamp, k long, v double").option("maxFilesPerTrigger", 1)
    joined = stream.parquet(str(folder)).join(F.broadcast(static), "k").select("k", "v", "name")
    peer = throughput(setting.spark_query("lookup", joined, "append"))
    name = "lookup of 1 000 000 rows in 1 000 000"
    return [Figure(name, ours / 1e6, peer / 1e6, ours / peer, 0.7, True, "M rows/s", "beside a static broadcast join")]


def flat(setting: Setting) -> list[Figure]:
    """Step time and state of an interval join after 500 steps, beside after 50."""
    random = np.random.default_rng(9)
    with setting.database("flat") as db:
        db.sql("".join(f"CREATE SOURCE {name} (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts);" for name in "ab"))
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b {BOUNDS}")
        times, rows = [], []
        for number in range(500):
            with db.batch() as batch:
                for name in "ab":
                    batch.insert(name, _rows(random, START_US + number * 5_000_000, 5_000_000, 500, 100).to_arrow())
            times.append(seconds_of(db.step))
            rows.append(db.query("SELECT state_rows FROM system.views").rows()[0][0])
    early, late = statistics.median(times[30:70]), statistics.median(times[-40:])
    held, holds = statistics.median(rows[30:70]), statistics.median(rows[-40:])
    return [
        Figure("interval join, step 500", late, early, late / early, 1.2, False, "s", "beside step 50"),
        Figure("interval join, state at step 500", holds, held, holds / max(held, 1), 1.2, False, "rows", "beside 50"),
    ]


def _ours(setting: Setting, name: str, folders: dict[str, Path], sql: str) -> list[tuple[int, float]]:
    with setting.database(name) as db:
        for source, folder in folders.items():
            db.sql((SOURCE + FROM_FILES).format(source, folder))
        db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        return run_all(db, whole=True)


def _spark(setting: Setting, folders: dict[str, Path]) -> float:
    sides = []
    for name, folder in folders.items():
        stream = setting.spark.readStream.schema("ts timestamp, k long, v double").option("maxFilesPerTrigger", 1)
        late = stream.parquet(str(folder)).withWatermark("ts", "5 seconds")
        sides.append(late.select(*(F.col(column).alias(f"{name}_{column}") for column in ("ts", "k", "v"))))
    met = F.expr("a_k = b_k AND a_ts BETWEEN b_ts - INTERVAL 10 SECONDS AND b_ts + INTERVAL 10 SECONDS")
    joined = sides[0].join(sides[1], met).select("a_k", "a_v", "b_v")
    return throughput(setting.spark_query("interval", joined, "append"))


def _half(setting: Setting, name: str, seed: int) -> Path:
    """Files of half a million rows, a minute each."""
    folder = setting.root / f"half-{name}"
    if not folder.exists():
        folder.mkdir()
        random = np.random.default_rng(seed)
        for number in range(FILES):
            frame = _rows(random, START_US + number * STEP_US, STEP_US, HALF, KEYS)
            frame.write_parquet(folder / f"{number:03}.parquet")
    return folder


def _rows(random: np.random.Generator, start: int, length: int, rows: int, keys: int) -> pl.DataFrame:
    times = np.sort(random.integers(start, start + length, rows))
    return pl.DataFrame(
        {
            "ts": pl.Series(times).cast(pl.Datetime("us", "UTC")),
            "k": random.integers(0, keys, rows),
            "v": random.random(rows),
        }
    )


JOIN_CASES: dict[str, Callable[[Setting], list[Figure]]] = {
    "interval": interval,
    "early_fire": early_fire,
    "lookup": lookup,
    "flat": flat,
}
