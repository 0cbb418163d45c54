"""Every failpoint is a place where a process may die: what is on disk there resumes to the answers of a run that was
never disturbed.

One pipeline runs in this process. At each failpoint it stands still, its JVM and Python workers too, while its folder
is copied: the copy is what a crash would have left. Copies are then resumed one by one, each at a path of its own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.core.failpoints import POINTS, observed
from tidegate.storage import step_log
from tidegate.storage.integrity import FolderCheck

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
CREATE SOURCE events (id INT, k INT, x INT);
CREATE TABLE stock (k INT PRIMARY KEY, x INT);
CREATE TABLE bag (x INT) WITH ('append_only' = 'true');
CREATE MATERIALIZED VIEW passed AS SELECT id, k, x FROM events;
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM events GROUP BY k;
CREATE MATERIALIZED VIEW best AS SELECT k, x FROM stock ORDER BY x DESC, k LIMIT 2;
CREATE MATERIALIZED VIEW unpacked AS SELECT x FROM bag;
CREATE SOURCE files (x INT) FROM FILES (path = 'INPUT') FORMAT parquet;
CREATE MATERIALIZED VIEW loaded AS SELECT x FROM files;
CREATE SINK changes FROM sums INTO FILES (path = 'out', mode = 'changelog') FORMAT parquet;
"""
LATER = """
CREATE MATERIALIZED VIEW overall AS SELECT COUNT(*) AS keys, SUM(total) AS total FROM sums;
CREATE MATERIALIZED VIEW packed AS SELECT COUNT(*) AS n, SUM(x) AS total FROM bag;
"""
VIEWS = ("passed", "sums", "best", "unpacked", "loaded", "overall", "packed")
BATCHES = 5
ADDED_AFTER = 3
"""After this many batches the views of LATER are added: the pipeline goes on in a new generation."""


@dataclass
class Crashes:
    """Copies of what is on disk whenever a failpoint is reached."""

    home: Path
    target: Path
    jvm: int
    copies: list[tuple[str, Path]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, point: str) -> None:
        with self._lock, suspended(self.jvm):
            copy = self.target / f"{len(self.copies)}-{point}"
            # Another thread of this process may still write: a copy counts if nothing changed meanwhile.
            while not self._copy(copy):
                shutil.rmtree(copy, ignore_errors=True)
            self.copies.append((point, copy))

    def _copy(self, copy: Path) -> bool:
        try:
            before = listing(self.home)
            shutil.copytree(self.home, copy)
            return listing(self.home) == before
        except (shutil.Error, FileNotFoundError):
            return False


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            found[str(path)] = (stat.st_size, stat.st_mtime_ns)
    return found


@contextmanager
def suspended(process: int) -> Iterator[None]:
    """Stops a process and everything it started, so that none of them writes."""
    stopped: list[int] = []
    try:
        for each in family(process):
            # A worker may end by itself before the signal reaches it.
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
                stopped.append(each)
        yield
    finally:
        for each in stopped:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def family(process: int) -> Iterator[int]:
    """A process and its descendants; children are listed after their parent was yielded."""
    yield process
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # "pid (name) state parent ...", and a name may have spaces.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                yield from family(int(stat.parent.name))


def write_input(folder: Path, *values: int) -> None:
    """Replaces the second file, which was written a while ago; without values it cannot be read."""
    path = folder / "b.parquet"
    if values:
        pq.write_table(pa.table({"x": pa.array(values, pa.int32())}), path)
    else:
        path.write_bytes(b"this is not parquet")
    at = time.time_ns() - 100_000_000_000
    os.utime(path, ns=(at, at))


def proceed(db: tidegate.Database, input: Path) -> None:
    """Does what is left of the scenario; a batch is one entry of the insert log, with a step after it."""
    script = SCRIPT.replace("INPUT", str(input))
    db.run_script(script)
    db.step()
    done = {row[0] for row in db.query("SELECT id FROM passed").rows()}
    assert done == set(range(len(done))), "batches were accepted in another order than they were made"
    for number in range(BATCHES):
        if number == ADDED_AFTER:
            db.run_script(script + LATER)
            write_input(input, 2)
        if number not in done:
            with db.batch() as batch:
                batch.insert("events", [(number, number % 2, number * 10)])
                batch.insert("stock", [(number % 3, number)])
                batch.insert("bag", [(number,)])
            db.step()


def answers(db: tidegate.Database, home: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """The content of every view, the sum of its changes, and the sum of what the sink wrote."""
    found = {}
    for view in VIEWS:
        found[view] = Counter(db.query(f"SELECT * FROM {view}").rows())
        total: Counter[tuple[object, ...]] = Counter()
        for change in db.changes(view):
            total[tuple(change.row.values())] += change.weight
        found[f"changes of {view}"] = +total
    written: Counter[tuple[object, ...]] = Counter()
    files = pa.concat_tables(pq.read_table(file) for file in sorted((home / "out").glob("[!_]*.parquet")))
    for row in files.to_pylist():
        written[row["k"], row["n"], row["total"]] += row["weight"]
    found["out"] = +written
    return found


def run(home: Path, input: Path, spark: SparkSession) -> dict[str, Counter[tuple[object, ...]]]:
    os.chdir(home)
    with tidegate.connect(home / "data", spark=spark) as db:
        proceed(db, input)
        deadline = time.monotonic() + 60
        while (found := answers(db, home))["out"] != found["sums"] and time.monotonic() < deadline:
            time.sleep(0.05)
    return found


@pytest.fixture
def expected() -> dict[str, Counter[tuple[object, ...]]]:
    sums = Counter({(0, 3, 60): 1, (1, 2, 40): 1})
    views = {
        "passed": Counter((number, number % 2, number * 10) for number in range(BATCHES)),
        "sums": sums,
        "best": Counter({(1, 4): 1, (0, 3): 1}),
        "unpacked": Counter((number,) for number in range(BATCHES)),
        "loaded": Counter({(1,): 1, (2,): 1}),
        "overall": Counter({(2, 100): 1}),
        "packed": Counter({(5, 10): 1}),
    }
    return {**views, **{f"changes of {view}": rows for view, rows in views.items()}, "out": sums}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_crash_changes_nothing(tmp_path, monkeypatch, spark, expected, every):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(step_log, "SNAPSHOT_ROWS", 0)
    monkeypatch.setattr(step_log, "MAX_FOLD", 1)
    home, input = tmp_path / "home", tmp_path / "input"
    home.mkdir()
    input.mkdir()
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), input / "a.parquet")
    write_input(input)
    crashes = Crashes(home, tmp_path / "crashes", spark.sparkContext._gateway.proc.pid)
    with observed(crashes):
        assert run(home, input, spark) == expected
    assert {point for point, _ in crashes.copies} == set(POINTS)
    failures = {}
    for _, copy in crashes.copies if every else chosen(crashes.copies):
        try:
            assert run(copy, input, spark) == expected
            assert FolderCheck(copy / "data").run().intact
        except (AssertionError, tidegate.Error) as failure:
            failures[copy.name] = failure
    assert failures == {}


def chosen(copies: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """One copy of each point."""
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 1_000_000))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    return [chance.choice([copy for copy in copies if copy[0] == point]) for point in POINTS]


class Crash(Exception):
    """Ends what the pipeline was doing where a process would have died."""


def test_the_content_of_a_table_reaches_a_new_view_once(tmp_path, spark):
    with tidegate.connect(tmp_path, spark=spark) as db:
        db.sql("CREATE TABLE bag (x INT) WITH ('append_only' = 'true')")
        db.sql("CREATE MATERIALIZED VIEW unpacked AS SELECT x FROM bag")
        db.insert("bag", [(1,), (2,)])
        db.step()
        db.sql("CREATE MATERIALIZED VIEW packed AS SELECT SUM(x) AS total FROM bag")
        with observed(crash_after_an_entry), pytest.raises(Crash):
            db.step()
    with tidegate.connect(tmp_path, spark=spark) as db:
        db.step()
        assert db.query("SELECT total FROM packed").rows() == [(3,)]


def crash_after_an_entry(point: str) -> None:
    if point == "insert_log.entry_written":
        raise Crash
