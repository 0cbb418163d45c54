"""A PostgreSQL server on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.fetch import FetchError, locked
from tests.servers.processes import end, free_port, last_lines, running, spawn, wait_until

USER, PASSWORD = "tidegate", "s3cret-word"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "fsync": "off",
    "shared_buffers": "32MB",
    "timezone": "Asia/Kolkata",
}


class Postgres:
    """A server that can be stopped, killed and started again on the same port and data.

    PostgreSQL does not run as root, and its user cannot read root's folders, so its data is in another folder, whose
    name is derived from that of `folder`; `sweep` removes it. `Postgres.at(address)` is only a client of a server that
    another process started. The server's time zone is not UTC, to find code that relies on UTC.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def at(cls, address: str) -> Postgres:
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
        return self.folder / "postgres.log"

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://{USER}:{password}@{self.address}/{database}"

    def start(self) -> None:
        data = data_folder(self.folder)
        if not data.exists():
            _make_data(data, self.log)
        settings = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
        command = [program("postgres"), "-D", str(data / "pg"), "-p", str(self.port), *settings]
        self.process = spawn(_unprivileged(command), self.log)
        wait_until(self._up, "the start of PostgreSQL")

    def stop(self, sign: int = signal.SIGINT) -> None:
        if self.process is not None:
            end(self.process.pid, sign)
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        """Ends all of its processes at once, without writing anything."""
        self.stop(signal.SIGQUIT)

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url(database), autocommit=True)

    def execute(self, database: str, sql: str) -> None:
        """Runs statements in one transaction."""
        with self.connect(database) as connection:
            connection.execute(sql)

    def create_database(self, prefix: str) -> str:
        """Creates an empty database and returns its name."""
        name = f"{prefix}_{uuid.uuid4().hex[:8]}"
        self.execute("postgres", f'CREATE DATABASE "{name}"')
        return name

    def _up(self) -> bool:
        if self.process is not None and not running(self.process.pid):
            raise RuntimeError(f"PostgreSQL ended:\n{last_lines(self.log)}")
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


def data_folder(folder: Path) -> Path:
    """The data folder of the server of `folder`."""
    return Path(tempfile.gettempdir()) / f"tidegate-postgres-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"


def sweep(folder: Path) -> None:
    """Removes the data of a server that has ended; does nothing while the server still runs for other workers."""
    data = data_folder(folder)
    with locked(folder / "lock"):
        pid = data / "pg" / "postmaster.pid"
        if not (pid.exists() and running(int(pid.read_text().split()[0]))):
            shutil.rmtree(data, ignore_errors=True)


def program(name: str) -> str:
    """The path of a program of the newest installed PostgreSQL. Debian does not put them on the PATH."""
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    chosen = str(paths[-1]) if paths else shutil.which(name)
    if chosen is None:
        raise FetchError("PostgreSQL's server is needed: install postgresql-15 (Debian: apt install postgresql-15)")
    return chosen


def _make_data(data: Path, log: Path) -> None:
    data.mkdir(mode=0o700)
    secret = data / "password"
    secret.write_text(PASSWORD)
    if os.geteuid() == 0:
        shutil.chown(data, "postgres")
        shutil.chown(secret, "postgres")
    options = ["-D", str(data / "pg"), "-U", USER, f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8"]
    command = [program("initdb"), *options, "--locale=C.UTF-8", "--no-sync"]
    if spawn(_unprivileged(command), log).wait(60):
        raise RuntimeError(f"PostgreSQL's data folder cannot be made:\n{last_lines(log)}")


def _unprivileged(command: list[str]) -> list[str]:
    """The command, run as Debian's user postgres if this process is root. setpriv replaces itself with the program,
    where runuser would stay as its parent."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--", *command]


@contextlib.contextmanager
def postgres_server(folder: Path) -> Iterator[Postgres]:
    """A server of one test, which may stop and kill it; it does not outlive the block."""
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        sweep(folder)
