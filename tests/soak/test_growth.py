"""Two thousand small steps in one process: neither its memory nor its files may grow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
STEPS, EVERY = 2000, 250
MAY_GROW = {
    "driver_mb": 20,
    "driver_objects": 2_000,
    "jvm_heap_mb": 30,
    "jvm_mb": 100,
    "workers": 4,
    "worker_mb": 40,
    "open_files": 20,
    "py4j": 10,
    "temporary": 50,
    "files": 30,
    "disk_mb": 2,
}
"""By how much the last reading may exceed the first one. 1 750 steps that each kept a file, an object or 25 KB would
exceed it; what is allowed is noise, and the rows that the views accumulate."""


@pytest.mark.slow
def test_two_thousand_steps_leave_nothing_behind(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as errors:
        ran = subprocess.run(
            [sys.executable, str(SOAK), str(STEPS), str(EVERY)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, log.read_text()
    print(ran.stdout)
    readings: list[dict[str, Any]] = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert [each["steps"] for each in readings] == list(range(EVERY, STEPS + 1, EVERY))
    first, *_, last = readings
    grown = {name: (first[name], last[name]) for name, most in MAY_GROW.items() if last[name] > first[name] + most}
    assert not grown, grown
    early, late = sorted(each["step_ms"] for each in readings[:4]), sorted(each["step_ms"] for each in readings[4:])
    assert late[0] <= 1.5 * early[0], "the best median of the second half; a busy machine makes all others worse"
