"""When `tidegate run` starts a failed pipeline again, and that it goes on after its Java process was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.cli.restarts import ATTEMPTS, RestartPolicy, Restarts
from tidegate.errors import make

TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
LOST = make("PIPELINE_FAILED", reason="Spark's Java process has ended")


def test_delays_double_up_to_a_minute_and_the_tenth_failure_is_final() -> None:
    restarts = Restarts(RestartPolicy.on_failure, step=3)
    delays = [restarts.delay_after(LOST, step=3) for _ in range(ATTEMPTS)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60, None]


def test_a_finished_step_begins_the_count_anew() -> None:
    restarts = Restarts(RestartPolicy.on_failure, step=3)
    assert [restarts.delay_after(LOST, step) for step in (3, 3, 4, 4, 5)] == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("code", ["EXPRESSION_FAILED", "FOLDER_DAMAGED", "PIPELINE_CHANGED"])
def test_what_does_not_pass_by_itself_is_final(code: str) -> None:
    assert Restarts(RestartPolicy.on_failure, step=0).delay_after(make(code), step=0) is None
    assert Restarts(RestartPolicy.never, step=0).delay_after(LOST, step=9) is None


@pytest.mark.spark
@pytest.mark.parametrize("policy", ["on-failure", "never"])
def test_a_killed_java_process_is_started_again(tmp_path: Path, policy: str) -> None:
    (tmp_path / "made.sql").write_text(
        "CREATE SOURCE made (n BIGINT) FROM DATAGEN (rows_per_second = 50, fields.n.kind = 'sequence');"
        "CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS c, MAX(n) AS last FROM made;"
    )
    command = [TIDEGATE, "run", "made.sql", "--restart", policy]
    out = (tmp_path / "out").open("w+")
    child = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: steps(out.name), child)
        os.kill(java_of(child.pid), signal.SIGKILL)
        if policy == "never":
            assert child.wait(60) == 1
            assert "PIPELINE_FAILED: the pipeline stopped: Spark's Java process has ended" in Path(out.name).read_text()
            return
        wait_until(lambda: "starts again in 1 s" in Path(out.name).read_text(), child)
        before = steps(out.name)
        wait_until(lambda: steps(out.name) > before, child)
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
        assert "Traceback" not in Path(out.name).read_text()
    finally:
        child.kill()
        child.wait()
        out.close()
    content = [TIDEGATE, "query", "made", "SELECT c - last FROM counted", "--json"]
    shown = subprocess.run(content, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert [list(row.values()) for row in json.loads(shown)] == [[0]]


def steps(out: str) -> int:
    """How many steps were shown."""
    return Path(out).read_text().count("  step ")


def wait_until(holds: Callable[[], object], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert child.poll() is None, "ended"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def java_of(process: int) -> int:
    """The Java process that a process started, directly or not."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if words[0].endswith("(java") and int(words[1].split()[1]) == process:
            return int(folder.name)
    raise AssertionError("no Java process")
