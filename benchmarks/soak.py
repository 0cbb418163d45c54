"""Many small steps in one process: what must not grow.

    python benchmarks/soak.py [STEPS [EVERY]]       2000 and 250 by default

Each step has ten rows, which pass a window, a lookup, a join, a keyed table and a file sink. Prints one line of JSON
per 250 steps: the median time of a step, memory of the three kinds of processes, open files, and what is on disk.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import tidegate
from tidegate.database import runtime_of

ROWS = 10
KEYS = 1000
EVERY = 250
DEFINITIONS = """
CREATE TABLE items (id BIGINT PRIMARY KEY, name STRING);
CREATE TABLE prices (id BIGINT PRIMARY KEY, price BIGINT);
CREATE SOURCE sales (n BIGINT, id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE MATERIALIZED VIEW minutes AS
  SELECT window_start, COUNT(*) AS n, SUM(n) AS total FROM TUMBLE(sales, ts, INTERVAL '1' MINUTE) GROUP BY window_start
  EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW named AS SELECT s.n, s.ts, i.name FROM sales s JOIN items i ON s.id = i.id;
CREATE MATERIALIZED VIEW priced AS SELECT i.id, i.name, p.price FROM items i JOIN prices p ON i.id = p.id;
CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(price) AS price FROM priced;
CREATE SINK out FROM minutes INTO FILE (path = '{out}');
SET retention_steps = '100';
"""


@dataclass(frozen=True)
class Reading:
    """What was measured after a number of steps. Sizes are in MB; `step_ms` is the median since the reading before."""

    steps: int
    step_ms: float
    driver_mb: float
    driver_objects: int
    jvm_heap_mb: float
    jvm_mb: float
    workers: int
    worker_mb: float
    open_files: int
    py4j: int
    temporary: int
    files: int
    disk_mb: float


class Soak:
    """Runs steps over a pipeline, and measures its processes and its folder."""

    def __init__(self, db: tidegate.Database) -> None:
        self._db = db
        self._steps = 0

    def define(self, out: Path) -> None:
        self._db.run_script(DEFINITIONS.format(out=out))
        ids = range(KEYS)
        self._db.insert("items", [{"id": id, "name": f"item {id}"} for id in ids])
        self._db.insert("prices", [{"id": id, "price": id} for id in ids])
        self._db.step()

    def readings(self, steps: int, every: int = EVERY) -> Iterator[Reading]:
        for _ in range(0, steps, every):
            times = [self._step() for _ in range(every)]
            yield self._reading(statistics.median(times) * 1000)

    def _step(self) -> float:
        """One step: 8 sales, a changed item and a changed price. Every 60 steps a window closes."""
        n = self._steps = self._steps + 1
        began = time.perf_counter()
        with self._db.batch() as batch:
            for row in range(ROWS - 2):
                at = f"2024-05-01 {n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"
                batch.insert("sales", [{"n": n, "id": (n * 7 + row) % KEYS, "ts": at}])
            batch.insert("items", [{"id": n % KEYS, "name": f"item {n}"}])
            batch.insert("prices", [{"id": n * 3 % KEYS, "price": n}])
        self._db.step()
        return time.perf_counter() - began

    def _reading(self, step_ms: float) -> Reading:
        gc.collect()
        runtime = runtime_of(self._db).spark.session._jvm.java.lang.Runtime.getRuntime()
        runtime.gc()
        driver, java = os.getpid(), _java_of(os.getpid())
        workers = [pid for pid in _descendants(driver) if pid != java and "python" in _command(pid)]
        folder = [path for path in Path(self._db.path).rglob("*") if path.is_file()]
        return Reading(
            steps=self._steps,
            step_ms=step_ms,
            driver_mb=_memory(driver),
            driver_objects=len(gc.get_objects()),
            jvm_heap_mb=(runtime.totalMemory() - runtime.freeMemory()) / 2**20,
            jvm_mb=_memory(java),
            workers=len(workers),
            worker_mb=sum(map(_memory, workers)),
            open_files=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (driver, java)),
            py4j=_py4j_references(),
            temporary=sum(1 for _ in Path(tempfile.gettempdir()).rglob("*")),
            files=len(folder),
            disk_mb=sum(path.stat().st_size for path in folder if path.exists()) / 2**20,
        )


def _py4j_references() -> int:
    """How many objects one of the two languages keeps for the other."""
    from py4j.finalizer import ThreadSafeFinalizer
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return len(ThreadSafeFinalizer.finalizers) + len(gateway.gateway_property.pool)


def _memory(pid: int) -> float:
    """The memory of a process in MB, where pages that several processes share are divided among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _descendants(pid: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        children = [child for child, its in parents.items() if its == parent]
        found += children
        waiting += children
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _java_of(pid: int) -> int:
    return next(child for child in _descendants(pid) if "SparkSubmit" in _command(child))


@contextlib.contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let this process and those that it starts put temporary files into a folder of their own."""
    folder.mkdir()
    before = {name: os.environ.get(name) for name in ("TMPDIR", "SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS")}
    java = f"{before['SPARK_SUBMIT_OPTS'] or ''} -Djava.io.tmpdir={folder}"
    os.environ |= {"TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder), "SPARK_SUBMIT_OPTS": java}
    tempfile.tempdir = None
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        tempfile.tempdir = None


def table(readings: list[Reading]) -> str:
    """The readings as a Markdown table."""
    names = [field.name for field in fields(Reading)]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(f"{getattr(one, name):,.0f}" for name in names) + " |" for one in readings]
    return "\n".join(lines)


def main(steps: int = 2000, every: int = EVERY) -> None:
    readings = []
    with (
        tempfile.TemporaryDirectory() as folder,
        temporary_files_in(Path(folder) / "tmp"),
        tidegate.connect(Path(folder) / "db", master="local[2]") as db,
    ):
        soak = Soak(db)
        soak.define(Path(folder) / "out.jsonl")
        for reading in soak.readings(steps, every):
            readings.append(reading)
            print(json.dumps(asdict(reading)), flush=True)
    print(table(readings))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
