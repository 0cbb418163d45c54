"""The pipeline's process, `tidegate run`, under a supervisor that starts it again whenever it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.servers.processes import Process, family, running, spawn, wait_until

CRASHES = ("Traceback (most recent call last)", "Py4JJavaError", "Py4JNetworkError", "panicked at", "INTERNAL")


class Pipeline:
    """`starts` counts the processes that were started; `ended` has the exit codes of those that ended by themselves."""

    def __init__(self, folder: Path, data: Path, sql: str, environment: Mapping[str, str]) -> None:
        self._folder, self._data, self._environment = folder, data, dict(environment)
        self.log = folder / "pipeline.log"
        self._files = list[Path]()
        self.declare(sql)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._told_to_end = threading.RLock(), True
        self.starts, self.ended, self._closed = 0, list[int](), False
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        self._supervisor.start()

    def declare(self, sql: str) -> None:
        """Add statements, which the next process runs first."""
        path = self._folder / f"part-{len(self._files)}.sql"
        path.write_text(sql)
        self._files.append(path)

    @property
    def pid(self) -> int:
        with self._lock:
            return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        with self._lock:
            command = [str(Path(sys.executable).with_name("tidegate")), "run", *map(str, self._files)]
            command += ["--data", str(self._data), "--master", "local[2]", "--json"]
            self._process = spawn(command, self.log, self._environment)
            self._told_to_end = False
            self.starts += 1

    def stop(self) -> None:
        """End it as an operator does, by SIGTERM. One that does not obey is killed, and counts as a failure."""
        with self._lock:
            self._told_to_end = True
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("the pipeline did not end within a minute after SIGTERM") from None

    def kill(self, only_driver: bool = False) -> None:
        """End it without a chance to write anything, with or without the processes that it has started."""
        with self._lock:
            self._told_to_end = True
        family = self.family()
        for each in family[:1] if only_driver else family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        wait_until(lambda: not any(running(each.pid) for each in family), "the end of all processes of the pipeline")

    def family(self) -> list[Process]:
        """The process, and those that descend from it."""
        return family(self.pid)

    def crashes(self) -> list[str]:
        """Lines of the log that no user should ever see."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [line for line in text.splitlines() if any(word in line for word in CRASHES)]

    def close(self) -> None:
        self._closed = True
        self.kill()
        self._supervisor.join()

    def _supervise(self) -> None:
        while not self._closed:
            threading.Event().wait(0.3)
            with self._lock:
                ended = self._process is not None and not self._told_to_end and self._process.poll() is not None
                if ended and self._process is not None:
                    self.ended.append(self._process.returncode)
                    self.start()
