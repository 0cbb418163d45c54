"""A Spark cluster on loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.servers.processes import end_with_tests, free_port, listening, wait_until

WORKERS = 2


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
        wait_until(lambda: self._registered_workers() == WORKERS, "the Spark workers")

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
        end_with_tests(self.processes[-1].pid)

    def _registered_workers(self) -> int:
        log = (self.folder / "master.log").read_text(errors="replace")
        return log.count("Registering worker")


def spark_home() -> Path:
    """The folder of the PySpark package, found without importing it."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@contextlib.contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A cluster that does not outlive the block."""
    cluster = SparkCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
