"""Failpoints: the values of TIDEGATE_FAILPOINTS, and that every point is in the code exactly once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tidegate
from tidegate.core.failpoints import POINTS, VARIABLE, failpoint, observed, parse

SOURCES = Path(tidegate.__file__).parent


def test_every_point_is_in_the_code_once() -> None:
    counts = Counter(
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r'\bfailpoint\("([^"]+)"\)', path.read_text(encoding="utf-8"))
    )
    assert counts == Counter(POINTS.keys())


def test_points_are_observed() -> None:
    reached: list[str] = []
    with observed(reached.append):
        failpoint("ledger.written")
        failpoint("step_log.written")
    failpoint("ledger.written")
    assert reached == ["ledger.written", "step_log.written"]


@pytest.mark.parametrize("text", ["ledger.written", "ledger.written=stop", "ledger.written=kill@0", "nowhere=kill"])
def test_an_invalid_setting_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not POINT=kill or POINT=kill@N"):
        parse(text)


def test_a_process_is_killed_at_the_given_pass() -> None:
    code = """
from tidegate.core.failpoints import failpoint
for number in range(5):
    print(number, flush=True)
    failpoint("ledger.written")
"""
    environment = {**os.environ, VARIABLE: "ledger.written=kill@3, sink.applied=kill"}
    command = [sys.executable, "-c", code]
    completed = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=False, start_new_session=True
    )
    assert (completed.returncode, completed.stdout.split()) == (-signal.SIGKILL, ["0", "1", "2"])
