"""Servers that tests need, as processes of their own on loopback. `make servers` starts them by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

START_SECONDS = 60.0
WORKERS = 2


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits for a condition, not for a time."""
    deadline = time.monotonic() + START_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come up in {START_SECONDS:.0f} s")
        time.sleep(0.1)


class SparkCluster:
    """A standalone master with two workers of one core each, from the PySpark package itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        host = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._spawn("master", "org.apache.spark.deploy.master.Master", [*host, "--port", str(self.port)])
        wait_until(lambda: listening(self.port), "the Spark master")
        for number in range(WORKERS):
            limits = ["-c", "1", "-m", "2g", "-d", str(self.folder / f"work{number}")]
            self._spawn(f"worker{number}", "org.apache.spark.deploy.worker.Worker", [*host, *limits, self.url])
        wait_until(lambda: self._registered() == WORKERS, "the Spark workers")

    def stop(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _spawn(self, name: str, main: str, arguments: list[str]) -> None:
        home = spark_home()
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), main, *arguments],
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _registered(self) -> int:
        log = (self.folder / "master.log").read_text(errors="replace")
        return log.count("Registering worker")


def spark_home() -> Path:
    """The folder of the PySpark package, found without importing it."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@contextlib.contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster that is stopped whatever happens."""
    cluster = SparkCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, spark_cluster(Path(folder)) as cluster:
        print(f"Spark master with {WORKERS} workers: {cluster.url}", flush=True)
        print(f"  tidegate run examples/shop.sql --master {cluster.url}", flush=True)
        print("Ctrl-C stops them", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
