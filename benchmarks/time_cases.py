"""Benchmarks of time: windows that close, hopping windows, late rows."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from cases import run_all
from pyspark.sql import functions as F
from run import Figure
from setting import ROWS, Setting, seconds_of, throughput

TUMBLE = "TUMBLE(events, ts, INTERVAL '10' SECOND)"
HOP = "HOP(events, ts, INTERVAL '1' SECOND, INTERVAL '60' SECOND)"
TUMBLE_60 = "TUMBLE(events, ts, INTERVAL '60' SECOND)"
MINUTE_US = 60_000_000
START_US = 1_700_000_000_000_000


def windows(keys: int, target: float, setting: Setting) -> list[Figure]:
    """10 s windows with COUNT and SUM per key that leave when they close, a million rows a step, beside Spark's own
    append mode with a watermark."""
    folder = setting.parquet(keys)
    ours, peers = [], []
    for attempt in range(2):
        ours.append(throughput(_ours(setting, f"windows-{keys}-{attempt}", folder, TUMBLE)))
        peers.append(_spark(setting, f"windows-{keys}-{attempt}", folder))
    mine, other = max(ours), max(peers)
    name = f"10 s windows, {keys:,} keys, EMIT ON WINDOW CLOSE".replace(",", " ")
    return [Figure(name, mine / 1e6, other / 1e6, mine / other, target, True, "M rows/s", "beside append mode")]


def _ours(setting: Setting, name: str, folder: Path, window: str, delay: str = "5") -> list[tuple[int, float]]:
    """(rows, seconds) of each file: the step that reads it and the one that closes its windows."""
    with setting.database(name) as db:
        db.sql(
            f"CREATE SOURCE events (ts TIMESTAMP, k BIGINT, v DOUBLE,"
            f" WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)"
            f" FROM FILES (path = '{folder}', format = 'parquet', max_files_per_step = 1);"
            f"CREATE MATERIALIZED VIEW v AS SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS total"
            f" FROM {window} GROUP BY k, window_start, window_end EMIT ON WINDOW CLOSE"
        )
        return run_all(db, whole=True)


def _spark(setting: Setting, name: str, folder: Path) -> float:
    stream = setting.spark.readStream.schema("ts timestamp, k long, v double").option("maxFilesPerTrigger", 1)
    late = stream.parquet(str(folder)).withWatermark("ts", "5 seconds")
    sums = late.groupBy("k", F.window("ts", "10 seconds")).agg(F.count("*"), F.sum("v"))
    return throughput(setting.spark_query(name, sums, "append"))


def hop(setting: Setting) -> list[Figure]:
    """Hopping windows of 60 s every second, so each row is in sixty, beside tumbling ones of 60 s."""
    folder = setting.parquet(1_000)
    hopping = throughput(_ours(setting, "hop", folder, HOP))
    tumbling = throughput(_ours(setting, "tumble", folder, TUMBLE_60))
    name = "hopping windows, size/slide = 60"
    return [Figure(name, ROWS / hopping, ROWS / tumbling, tumbling / hopping, 8.0, False, "s", "beside tumbling")]


def late_storm(setting: Setting) -> list[Figure]:
    """A million rows a step of which half are late, beside a million of which none is."""
    times = {}
    for name, share in (("storm", 0.5), ("calm", 0.0)):
        folder = _stormy(setting, share)
        times[name] = ROWS / throughput(_ours(setting, name, folder, TUMBLE))
    ratio = times["storm"] / times["calm"]
    return [Figure("half of the rows late", times["storm"], times["calm"], ratio, 1.3, False, "s", "beside none late")]


def _stormy(setting: Setting, share: float) -> Path:
    """Files of a minute each, in which a share of the rows belongs to the minute ten minutes before."""
    folder = setting.root / f"storm-{share}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    random = np.random.default_rng(6)
    for number in range(6):
        start = START_US + number * MINUTE_US
        times = random.integers(start, start + MINUTE_US, ROWS)
        late = random.random(ROWS) < (share if number else 0.0)
        frame = pl.DataFrame(
            {
                "ts": pl.Series(np.where(late, times - 10 * MINUTE_US, times)).cast(pl.Datetime("us", "UTC")),
                "k": random.integers(0, 1000, ROWS),
                "v": random.random(ROWS) * 100,
            }
        )
        frame.write_parquet(folder / f"{number:03}.parquet")
    return folder


def many_windows(setting: Setting) -> list[Figure]:
    """Step time and state after 500 windows have closed, beside after 50."""
    random = np.random.default_rng(7)
    with setting.database("many-windows") as db:
        db.sql("CREATE SOURCE events (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts)")
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT k, window_start, COUNT(*) AS n FROM {TUMBLE}"
            " GROUP BY k, window_start EMIT ON WINDOW CLOSE"
        )
        times, rows = [], []
        for number in range(500):
            moment = START_US + number * 10_000_000
            table = pl.DataFrame(
                {
                    "ts": pl.Series(random.integers(moment, moment + 10_000_000, 1000)).cast(pl.Datetime("us", "UTC")),
                    "k": random.integers(0, 100, 1000),
                    "v": random.random(1000),
                }
            ).to_arrow()
            db.insert("events", table)
            times.append(seconds_of(db.step))
            rows.append(db.query("SELECT state_rows FROM system.views").rows()[0][0])
    early, late = statistics.median(times[30:70]), statistics.median(times[-40:])
    held, holds = statistics.median(rows[30:70]), statistics.median(rows[-40:])
    return [
        Figure("step time after 500 windows", late, early, late / early, 1.2, False, "s", "beside after 50"),
        Figure("state after 500 windows", holds, held, holds / max(held, 1), 1.2, False, "rows", "beside after 50"),
    ]


TIME_CASES: dict[str, Callable[[Setting], list[Figure]]] = {
    "windows_1k": partial(windows, 1_000, 1.0),
    "windows_100k": partial(windows, 100_000, 4.0),
    "hop": hop,
    "late_storm": late_storm,
    "many_windows": many_windows,
}
