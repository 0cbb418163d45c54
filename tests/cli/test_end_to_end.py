"""What needs processes of its own: a pipeline that others look at while it runs, signals, spec files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIDEGATE = Path(sys.executable).parent / "tidegate"
ENDLESS = """
CREATE SOURCE ticks (n BIGINT, parity STRING)
FROM DATAGEN (rows_per_second = 50, fields.n.kind = 'sequence',
              fields.parity.kind = 'choice', fields.parity.choices = 'odd,even');
CREATE MATERIALIZED VIEW counts AS SELECT parity, COUNT(*) AS n FROM ticks GROUP BY parity;
"""


def run(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TIDEGATE, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=400,
        check=False,
    )


def wait_for(holds: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A pipeline without end in ./ticks, with its output in run.log."""
    (tmp_path / "ticks.sql").write_text(ENDLESS)
    with open(tmp_path / "run.log", "w") as log:
        command = [str(TIDEGATE), "run", "ticks.sql"]
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, start_new_session=True
        )
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_pipeline_is_queried_and_followed_while_it_runs(tmp_path: Path, endless: subprocess.Popen[str]) -> None:
    wait_for(lambda: "counts 2 rows" in (tmp_path / "run.log").read_text())

    found = run("query", "ticks", "SELECT SUM(n) > 0 AS some FROM counts", "--format", "csv", folder=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "some\ntrue\n", "")

    tail = run("tail", "ticks", "counts", "--from", "1", "--json", "--once", folder=tmp_path)
    changes = [json.loads(line) for line in tail.stdout.splitlines()]
    assert tail.returncode == 0
    assert {change["op"] for change in changes[:2]} == {"+I"}
    assert {change["op"] for change in changes} == {"+I", "-U", "+U"}

    second = run("run", "ticks.sql", folder=tmp_path)
    assert second.returncode == 1
    assert second.stderr.startswith(f"PIPELINE_IN_USE: {tmp_path}/ticks is in use by process {endless.pid}\n")

    os.killpg(endless.pid, signal.SIGINT)
    assert endless.wait(timeout=120) == 0
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert all("  step " in line for line in lines), lines


REPLACE = """
import sys, tidegate
with tidegate.connect(sys.argv[1]) as db:
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW changed AS SELECT MAX(n) AS most FROM s")
    db.insert("s", [(100,)])
    db.step()
    print(db.query("SELECT total FROM kept").rows(), db.query("SELECT most FROM changed").rows())
"""


def test_a_process_begins_with_another_view_and_the_state_of_the_others(tmp_path: Path, spark: SparkSession) -> None:
    """Of so many steps that Spark has made a snapshot of the state."""
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.sql("CREATE SOURCE s (n BIGINT); CREATE MATERIALIZED VIEW kept AS SELECT SUM(n) AS total FROM s")
        db.sql("CREATE MATERIALIZED VIEW changed AS SELECT MIN(n) AS least FROM s")
        for number in range(12):
            db.insert("s", [(number,)])
            db.step()
    command = [sys.executable, "-c", REPLACE, str(tmp_path / "data")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (found.returncode, found.stdout) == (0, "[(166,)] [(100,)]\n"), found.stderr


def test_spec_files(tmp_path: Path) -> None:
    good = (
        "# Counts.\n\nsql\n  CREATE TABLE t (a INT);\n  CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t;\n\n"
    )
    good += "step one row\n> t\n  1\n= v\n  1\n"
    (tmp_path / "good.spec").write_text(good)
    (tmp_path / "bad.spec").write_text(good.replace("= v\n  1", "= v\n  2"))
    found = run("test", ".", folder=tmp_path)
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == "1 passed, 1 failed"
