"""Servers as processes of their own on loopback, ended by their pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 15.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Waits for a condition, not for a time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen in {seconds:.0f} s")
        time.sleep(0.05)


def java(*arguments: str) -> list[str]:
    """A small JVM that starts quickly."""
    home = os.environ.get("JAVA_HOME")
    small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [str(Path(home, "bin", "java")) if home else "java", *small, *arguments]


def spawn(command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, so that Ctrl-C in the terminal is not for it."""
    if os.environ.get("TIDEGATE_TEST_TIER") == "unit":
        raise RuntimeError("unit tests start no server: mark this one with pytest.mark.server")
    variables = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"} | dict(environment or {})
    with log.open("ab") as file:
        return subprocess.Popen(
            command, env=variables, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, cwd=log.parent
        )


def running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def end(pid: int, sign: int = signal.SIGTERM) -> None:
    """Ends a process, whoever started it, the hard way if it does not go by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)
        try:
            wait_until(lambda: not running(pid), f"the end of process {pid}", STOP_SECONDS)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not running(pid), f"the end of process {pid}", STOP_SECONDS)


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
