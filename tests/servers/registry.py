"""A schema registry on loopback with Confluent's API, in memory."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.servers.fetch import server_files
from tests.servers.processes import end, free_port, java, last_lines, running, spawn, wait_until

RUNNER = "apicurio-registry-app-2.6.13.Final-runner.jar"


class Registry:
    """A registry whose content is lost when it stops."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def log(self) -> Path:
        return self.folder / "registry.log"

    def start(self) -> None:
        where = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(self.port)}
        self.process = spawn(java("-jar", str(server_files("registry") / RUNNER)), self.log, where)
        wait_until(self._up, "the start of the schema registry")

    def stop(self) -> None:
        if self.process is not None:
            end(self.process.pid)
            self.process.wait()
            self.process = None

    def _up(self) -> bool:
        if self.process is not None and not running(self.process.pid):
            raise RuntimeError(f"the schema registry ended:\n{last_lines(self.log)}")
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@contextlib.contextmanager
def schema_registry(folder: Path) -> Iterator[Registry]:
    """A registry that does not outlive the block."""
    registry = Registry(folder)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()
