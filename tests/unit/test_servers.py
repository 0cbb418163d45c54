"""The servers of the tests end with the tests, also if pytest is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.processes import running, wait_until

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watchdogs need pidfd_open of Linux"),
]
WORKER = """
import os, signal, sys
from pathlib import Path
from tests.servers.processes import spawn
print(os.getpid(), spawn(["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
signal.pause()
"""
PARENT = """
import signal, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]])
signal.pause()
"""


def start(tmp_path: Path, *code: str, **variables: str) -> tuple[subprocess.Popen[str], int, int]:
    """Runs Python code; returns its process, and the pids of the worker and of the server that it starts."""
    words = [word for text in code for word in ("-c", text)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_XDIST_WORKER"} | variables
    process = subprocess.Popen(
        [sys.executable, *words, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=environment,
    )
    assert process.stdout is not None
    worker, server = map(int, process.stdout.readline().split())
    return process, worker, server


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_when_the_tests_are_killed(tmp_path: Path, sign: signal.Signals) -> None:
    process, _, server = start(tmp_path, WORKER)
    with process:
        assert running(server)
        process.send_signal(sign)
    wait_until(lambda: not running(server), "the end of the server")


def test_a_shared_server_outlives_the_worker_that_started_it(tmp_path: Path) -> None:
    process, worker, server = start(tmp_path, PARENT, WORKER, PYTEST_XDIST_WORKER="gw0")
    with process:
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not running(worker), "the end of the worker")
        with pytest.raises(TimeoutError):
            wait_until(lambda: not running(server), "the end of the server", 0.5)
        process.kill()
    wait_until(lambda: not running(server), "the end of the server")
