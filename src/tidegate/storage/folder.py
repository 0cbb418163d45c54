"""A data folder: one database's catalog, logs, checkpoints. One process writes it at a time; many may read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from pathlib import Path
from typing import IO

from tidegate import errors
from tidegate.core.files import write_atomically

FORMAT = 1
MARKER = "tidegate.json"


class Folder:
    """Where things are in a data folder, its version and its lock."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock: IO[str] | None = None

    @property
    def catalog(self) -> Path:
        return self.root / "catalog.json"

    @property
    def inserts(self) -> Path:
        return self.root / "inserts"

    @property
    def steps(self) -> Path:
        return self.root / "steps"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def exchange(self) -> Path:
        """Blocks on their way between workers."""
        return self.root / "exchange"

    @property
    def views(self) -> Path:
        return self.root / "views"

    @property
    def sinks(self) -> Path:
        return self.root / "sinks"

    @property
    def generations(self) -> Path:
        return self.root / "generations"

    @property
    def clock(self) -> Path:
        return self.root / "clock.json"

    @property
    def log(self) -> Path:
        return self.root / "spark.log"

    def exists(self) -> bool:
        return (self.root / MARKER).exists()

    def open(self, read_only: bool = False) -> None:
        """Makes the folder if it is new, checks its version, and takes the lock unless it is only read."""
        if read_only and not self.exists():
            raise errors.make("UNKNOWN_FOLDER", folder=str(self.root))
        if self.root.exists() and not self.root.is_dir():
            raise errors.make("INVALID_OPTION", message=f"{self.root} is a file, not a data folder")
        if not read_only:
            self._create()
        self._check_version()
        if not read_only:
            self._take_lock()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _create(self) -> None:
        for folder in (self.root, self.inserts, self.steps, self.blobs, self.views, self.sinks, self.generations):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.exists():
            write_atomically(self.root / MARKER, json.dumps({"format": FORMAT, "id": uuid.uuid4().hex}).encode())

    @property
    def id(self) -> str:
        """What tells this database from any other, wherever its folder is moved to."""
        return str(json.loads((self.root / MARKER).read_text())["id"])

    def _check_version(self) -> None:
        found = json.loads((self.root / MARKER).read_text()).get("format")
        if found != FORMAT:
            raise errors.make("FOLDER_VERSION", folder=str(self.root), found=found, expected=FORMAT)

    def _take_lock(self) -> None:
        lock = open(self.root / "lock", "a+")  # noqa: SIM115 - held as long as the folder is open
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise errors.make("PIPELINE_IN_USE", folder=str(self.root), pid=holder) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.close()
