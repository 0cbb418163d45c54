"""The benchmarks themselves."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from run import Figure
from setting import Setting, seconds_of, throughput

from tidegate.core.schema import Column
from tidegate.database import Database, runtime_of
from tidegate.spark.feed import Feed
from tidegate.spark.wide_frame import wide_schema
from tidegate.storage.clock_file import write_clock
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.objects import LocalStorage, make_folders

SUMS = "SELECT k, SUM(v) AS total, COUNT(*) AS n, AVG(v) AS mean FROM events GROUP BY k"


def grouped(keys: int, target: float, setting: Setting) -> list[Figure]:
    """Grouped SUM, COUNT and AVG over parquet, one file of a million rows per step, beside Spark's `update` mode."""
    folder = setting.parquet(keys)
    ours, peers = [], []
    for attempt in range(2):
        ours.append(_ours(setting, f"grouped-{keys}-{attempt}", folder))
        peers.append(_spark(setting, f"grouped-{keys}-{attempt}", folder))
    mine, other = max(ours), max(peers)
    name = f"grouped sum/count/avg, {keys:,} keys".replace(",", " ")
    note = "beside Spark's update mode on RocksDB"
    return [Figure(name, mine / 1e6, other / 1e6, mine / other, target, True, "M rows/s", note)]


def _ours(setting: Setting, name: str, folder: Path) -> float:
    with setting.database(name) as db:
        db.sql(
            f"CREATE SOURCE events (ts TIMESTAMP, k BIGINT, v DOUBLE)"
            f" FROM FILES (path = '{folder}', format = 'parquet', max_files_per_step = 1);"
            f"CREATE MATERIALIZED VIEW sums AS {SUMS}"
        )
        return throughput(run_all(db))


def run_all(db: Database, whole: bool = False) -> list[tuple[int, float]]:
    """Runs over all files there are; (rows, seconds) of each micro-batch that read rows. Workers read files themselves,
    so Spark counts files where the step log counts rows. `whole`: with the micro-batches that follow until the next
    rows, in which windows close."""
    db.start()
    runtime = runtime_of(db)
    runtime.spark.pipeline.idle()
    rows = {header.step: sum(header.rows_in.values()) for header in runtime.log.headers()}
    progress = runtime.spark.pipeline.progress()
    seconds = {each.batchId + 1: each.durationMs["triggerExecution"] / 1000 for each in progress}
    found: list[tuple[int, float]] = []
    for step in sorted(seconds):
        if rows.get(step):
            found.append((rows[step], seconds[step]))
        elif found and whole:
            found[-1] = (found[-1][0], found[-1][1] + seconds[step])
    return found


def _spark(setting: Setting, name: str, folder: Path) -> float:
    stream = setting.spark.readStream.schema("ts timestamp, k long, v double").option("maxFilesPerTrigger", 1)
    sums = stream.parquet(str(folder)).groupBy("k").agg(F.sum("v"), F.count("*"), F.avg("v"))
    return throughput(setting.spark_query(name, sums, "update"))


def state_curve(setting: Setting) -> list[Figure]:
    """A step that changes 1 000 random keys, with more and more keys in state."""
    medians = {keys: _changing_steps(setting, keys) for keys in (10_000, 100_000, 1_000_000)}
    base = medians[10_000]
    figures = []
    for keys, seconds in medians.items():
        name = f"step changing 1 000 of {keys:,} keys".replace(",", " ")
        target = 2.0 if keys == 1_000_000 else None
        figures.append(Figure(name, seconds, base, seconds / base, target, False, "s", "beside 10 000 keys"))
    return figures


def _changing_steps(setting: Setting, keys: int) -> float:
    random = np.random.default_rng(2)
    with setting.database(f"curve-{keys}") as db:
        db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        _load(db, keys)
        return statistics.median(_timed_steps(db, 40, lambda: random.integers(0, keys, 1000))[10:])


def _load(db: Database, keys: int) -> None:
    for start in range(0, keys, 250_000):
        db.insert("events", _rows(np.arange(start, min(start + 250_000, keys))))
        db.step()


def _rows(keys: np.ndarray) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(np.ones(len(keys)))})


def _timed_steps(db: Database, count: int, keys: Callable[[], np.ndarray]) -> list[float]:
    found = []
    for _ in range(count):
        db.insert("events", _rows(keys()))
        found.append(seconds_of(db.step))
    return found


def latency(setting: Setting) -> list[Figure]:
    """A step of ten rows through one stateful view, beside a stateless micro-batch of the same kind of source."""
    random = np.random.default_rng(3)
    stateless = Stateless(setting)
    with setting.database("latency") as db:
        db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        ours, peer = [], []
        for _ in range(60):
            ours += _timed_steps(db, 1, lambda: random.integers(0, 100, 10))
            peer.append(stateless.step(random.integers(0, 100, 10)))
    stateless.query.stop()
    mine, other = statistics.median(ours[20:]), statistics.median(peer[20:])
    note = "beside a stateless micro-batch"
    return [Figure("step of 10 rows, one stateful view", mine, other, mine / other, 4.0, False, "s", note)]


GROUPS_OF_GROUPS = "SELECT n, COUNT(*) AS groups FROM sums GROUP BY n"


def levels(setting: Setting) -> list[Figure]:
    """What one and two levels of stateful operators add to a step of ten rows through a view without state."""
    random = np.random.default_rng(6)
    views = {
        0: ["CREATE MATERIALIZED VIEW passed AS SELECT k, v FROM events WHERE v > 0"],
        1: [f"CREATE MATERIALIZED VIEW sums AS {SUMS}"],
        2: [f"CREATE MATERIALIZED VIEW sums AS {SUMS}", f"CREATE MATERIALIZED VIEW n AS {GROUPS_OF_GROUPS}"],
    }
    medians = {}
    for count, statements in views.items():
        with setting.database(f"levels-{count}") as db:
            db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
            for statement in statements:
                db.sql(statement)
            medians[count] = statistics.median(_timed_steps(db, 50, lambda: random.integers(0, 100, 10))[20:])
    return [
        Figure(
            f"what {count} of stateful operators add to a step of 10 rows",
            medians[number] - medians[0],
            medians[0],
            (medians[number] - medians[0]) / medians[0],
            None,
            False,
            "s",
            "beside a step without state",
        )
        for number, count in ((1, "one level"), (2, "two levels"))
    ]


def added_view(setting: Setting) -> list[Figure]:
    """Adding a view to a running pipeline that keeps a million groups for another one, up to its first step."""
    with setting.database("added") as db:
        db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
        db.sql("CREATE SOURCE others (x BIGINT)")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        _load(db, 1_000_000)
        step = statistics.median(_timed_steps(db, 20, lambda: np.arange(1000))[5:])
        seconds = []
        for number in range(5):
            start = time.perf_counter()
            db.sql(f"CREATE MATERIALIZED VIEW added_{number} AS SELECT x, COUNT(*) AS n{number} FROM others GROUP BY x")
            db.insert("others", [(number,)])
            db.step()
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    name = "a view added beside 1 000 000 groups"
    return [Figure(name, median, step, median / step, None, False, "s", "beside a step of 1 000 rows")]


class Stateless:
    """Spark alone on an insert log: reads it, writes nowhere."""

    def __init__(self, setting: Setting) -> None:
        root = setting.root / "stateless"
        self.log = InsertLog(LocalStorage(root / "inserts"))
        make_folders([root / "inserts"])
        self.log.open_for_writing()
        write_clock(root, {"tick": 0, "time": 0, "released": None})
        spec = {
            "log": str(root / "inserts"),
            "clock": str(root / "clock.json"),
            "relations": {"events": 0},
            **{name: [] for name in ("timed", "replay")},
            "start": {"entry": 0, "tick": 0, "time": 0},
            "parallelism": 2,
            "wall": True,
            "alone": False,
        }
        columns = (Column("k", "bigint"), Column("v", "double"))
        setting.spark.dataSource.register(Feed)
        stream = setting.spark.readStream.format(Feed.name()).option("spec", json.dumps(spec))
        frame = stream.option("wide", wide_schema({"in:events": columns}, ordered=True).json()).load()
        self.query = frame.writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint")).start()

    def step(self, keys: np.ndarray) -> float:
        self.log.append([("events", _rows(keys), 1)])
        return seconds_of(self.query.processAllAvailable)


def ten_views(setting: Setting) -> list[Figure]:
    """Ten views over one source beside one, 10 000 rows a step."""
    random = np.random.default_rng(4)
    medians = {}
    for count in (1, 10):
        with setting.database(f"views-{count}") as db:
            db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
            for number in range(count):
                query = SUMS.replace("GROUP BY k", f"WHERE k % 10 <> {number} GROUP BY k")
                db.sql(f"CREATE MATERIALIZED VIEW sums_{number} AS {query}")
            times = _timed_steps(db, 40, lambda: random.integers(0, 1000, 10_000))
            medians[count] = statistics.median(times[10:])
    ten, one = medians[10], medians[1]
    return [Figure("ten views over one source", ten, one, ten / one, 3.0, False, "s", "beside one view")]


def memory(setting: Setting) -> list[Figure]:
    """Memory of the Python workers with a million groups, after 20 and after 220 steps."""
    random = np.random.default_rng(5)
    with setting.database("memory") as db:
        db.sql("CREATE SOURCE events (k BIGINT, v DOUBLE)")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        _load(db, 1_000_000)
        _timed_steps(db, 20, lambda: random.integers(0, 1_000_000, 1000))
        before = worker_megabytes()
        _timed_steps(db, 200, lambda: random.integers(0, 1_000_000, 1000))
        after = worker_megabytes()
    name = "Python workers' memory, 1 000 000 groups, after 200 more steps"
    return [Figure(name, after, before, after / before, 1.25, False, "MB", "beside before them")]


def worker_megabytes() -> float:
    """Resident memory of all Python workers of this machine's Spark."""
    total = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _is_worker(process):
            total += int((process / "statm").read_text().split()[1]) * 4096
    return total / 1e6


def _is_worker(process: Path) -> bool:
    try:
        return b"tidegate.spark.daemon" in (process / "cmdline").read_bytes()
    except OSError:
        return False


CASES: dict[str, Callable[[Setting], list[Figure]]] = {
    "grouped_1k": partial(grouped, 1_000, 1.0),
    "grouped_100k": partial(grouped, 100_000, 3.0),
    "state_curve": state_curve,
    "latency": latency,
    "levels": levels,
    "added_view": added_view,
    "ten_views": ten_views,
    "memory": memory,
}
