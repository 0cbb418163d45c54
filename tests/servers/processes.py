"""Server processes on loopback: starting them, waiting for them, and ending them by their pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 15.0
WATCHDOG = Path(__file__).with_name("watchdog.py")
_watchdogs: list[subprocess.Popen[bytes]] = []


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Waits until a condition holds."""
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
    """Starts a process in a session of its own, so that Ctrl-C in the terminal does not reach it. It ends with the test
    run at the latest, also if pytest is killed."""
    if os.environ.get("TIDEGATE_TEST_TIER") == "unit":
        raise RuntimeError("unit tests start no server: mark this one with pytest.mark.server")
    variables = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"} | dict(environment or {})
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, env=variables, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, cwd=log.parent
        )
    end_with_tests(process.pid)
    return process


def end_with_tests(pid: int) -> None:
    """Starts a watchdog that ends a process when the test run ends, however it ends. Under pytest-xdist that is when
    the parent of the workers ends: other workers may still use a shared server when the one that started it exits."""
    if not hasattr(os, "pidfd_open"):
        return
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    command = [sys.executable, "-I", "-S", str(WATCHDOG), str(owner), str(pid)]
    _watchdogs[:] = [watchdog for watchdog in _watchdogs if watchdog.poll() is None]
    _watchdogs.append(
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    )


def running(pid: int) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def end(pid: int, sign: int = signal.SIGTERM) -> None:
    """Ends a process, whoever started it, with SIGKILL if it ignores the signal."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)
        try:
            wait_until(lambda: not running(pid), f"the end of process {pid}", STOP_SECONDS)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not running(pid), f"the end of process {pid}", STOP_SECONDS)


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    pid: int
    parent: int
    command: str

    @property
    def is_jvm(self) -> bool:
        return "org.apache.spark.deploy.SparkSubmit" in self.command

    @property
    def is_worker(self) -> bool:
        """True for the Python processes that a Spark of Tidegate starts."""
        return "tidegate.spark.fork_server" in self.command or "fork_client.py" in self.command


def family(pid: int) -> list[Process]:
    """A process, if it runs, and those that descend from it."""
    found = {each.pid: each for each in _processes()}
    members = [found[pid]] if pid in found else []
    for member in members:
        members += [each for each in found.values() if each.parent == member.pid]
    return members


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield Process(int(folder.name), int(parent), command)
