"""A Redis server on loopback."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import redis

from tests.servers.fetch import FetchError
from tests.servers.processes import end, free_port, last_lines, running, spawn, wait_until

PASSWORD = "s3cret-word"


class Redis:
    """A server that can be stopped, killed and started again on the same port; it writes to disk only if it is
    `durable`. `Redis.at(address)` is only a client of a server that another process started."""

    def __init__(self, folder: Path, password: str = "", durable: bool = False) -> None:
        self.folder, self.password, self.durable = folder, password, durable
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def at(cls, address: str) -> Redis:
        server = cls(Path())
        server.port = int(address.rpartition(":")[2])
        return server

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "redis.log"

    def url(self, number: int = 0) -> str:
        return f"redis://{self.address}/{number}"

    def start(self) -> None:
        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "always" if self.durable else "no",
            "dir": str(self.folder),
        }
        settings |= {"requirepass": self.password} if self.password else {}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self.process = spawn([program(), *words], self.log)
        wait_until(self._up, "the start of Redis")

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self.process is not None:
            end(self.process.pid, sign)
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, host="127.0.0.1", password=self.password or None, decode_responses=True)

    def _up(self) -> bool:
        if self.process is not None and not running(self.process.pid):
            raise RuntimeError(f"Redis ended:\n{last_lines(self.log)}")
        with self.client() as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.BusyLoadingError):
                return False


def program() -> str:
    path = shutil.which("redis-server")
    if path is None:
        raise FetchError("Redis' server is needed: install redis-server (Debian: apt install redis-server)")
    return path


@contextlib.contextmanager
def redis_server(folder: Path, password: str = "", durable: bool = False) -> Iterator[Redis]:
    """A server of one test, which may stop and kill it; it does not outlive the block."""
    server = Redis(folder, password, durable)
    try:
        server.start()
        yield server
    finally:
        server.stop()
