"""A data folder: one database's catalog, logs, checkpoints. One process writes it at a time; many may read."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from tidegate import errors
from tidegate.storage import catalog_file, clock_file, generations, ledger, step_index
from tidegate.storage.documents import MISSING, Document, damaged
from tidegate.storage.objects import FOLDER_MODE, LocalStorage, make_folders
from tidegate.storage.state import STATE

FORMAT = 3
MIGRATED = 2
"""A folder of this format can be read, and is brought to the present one when a pipeline runs in it."""
MARKER = "tidegate.json"


@dataclass(frozen=True)
class Marker:
    """The file that makes a folder a data folder. `id` identifies the database, even after its folder is moved."""

    format: int
    id: str


@dataclass(frozen=True)
class Settings:
    """Settings that the first run fixes. `partitions`: the number of shuffle partitions, by which state is laid out."""

    partitions: int | None


class Folder:
    """The paths in a data folder, its version and its lock."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.storage = LocalStorage(self.root)
        self.marker = Document(self.storage, MARKER, "marker", Marker)
        self.settings = Document(self.storage, "pipeline.json", "settings", Settings)
        self._lock: IO[str] | None = None

    @property
    def catalog(self) -> Path:
        return self.root / catalog_file.NAME

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
    def state(self) -> Path:
        """Objects with the state of operators."""
        return self.root / STATE

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
        return self.root / clock_file.NAME

    @property
    def log(self) -> Path:
        return self.root / "spark.log"

    @cached_property
    def id(self) -> str:
        """The identity of this database."""
        return self.marker.read().id

    def exists(self) -> bool:
        """True if this is a data folder, or the remains of one."""
        return self.marker.exists() or self._has_remains()

    def open(self, read_only: bool = False) -> None:
        """Makes the folder if it is new, checks its version, and takes the lock unless it is only read."""
        if self.root.exists() and not self.root.is_dir():
            raise errors.make("INVALID_OPTION", message=f"{self.root} is a file, not a data folder")
        if not self.marker.exists():
            if self._has_remains():
                raise damaged(str(self.root / MARKER), MISSING)
            if read_only:
                raise errors.make("UNKNOWN_FOLDER", folder=str(self.root))
            self._create()
        self.check_format()
        if not read_only:
            make_folders(self._folders())
            self._take_lock()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_format(self) -> None:
        """Raises FOLDER_VERSION for a folder of another format, FOLDER_DAMAGED if the marker cannot be read."""
        number = self._format_1() or self.marker.read().format
        if number not in (FORMAT, MIGRATED):
            raise errors.make("FOLDER_VERSION", folder=str(self.root), found=number, expected=FORMAT)

    def must_migrate(self) -> bool:
        """True for a folder of the format before this one."""
        return self.marker.read().format == MIGRATED

    def set_migrated(self) -> None:
        """Record that everything in the folder has the present format."""
        self.marker.update(lambda marker: replace(marker, format=FORMAT))

    def _format_1(self) -> int | None:
        """The format in a marker of the first format, which was plain JSON without a checksum; else None."""
        try:
            document: Any = json.loads(self.storage.read(MARKER))
        except (FileNotFoundError, ValueError):
            return None
        number = document.get("format") if isinstance(document, dict) else None
        return number if isinstance(number, int) else None

    def _create(self) -> None:
        """Writes every file that a data folder always has, the marker last: so a file that is missing beside a marker
        was removed."""
        make_folders((self.root, *self._folders()))
        self.root.chmod(FOLDER_MODE)
        for document, record in self.initial_documents():
            document.write(record)
        self.marker.write(Marker(FORMAT, uuid.uuid4().hex))

    def _folders(self) -> tuple[Path, ...]:
        return (self.inserts, self.steps, self.blobs, self.state, self.views, self.sinks, self.generations)

    def initial_documents(self) -> list[tuple[Document[Any], Any]]:
        """The files of a new folder beside its marker, and what is in them."""
        return [
            (catalog_file.document(self.storage), catalog_file.CatalogRecord(())),
            (ledger.document(self.storage), ledger.EMPTY),
            (step_index.document(self.storage), step_index.EMPTY),
            (clock_file.document(self.storage), clock_file.START),
            (self.settings, Settings(None)),
            (generations.pointer(self.storage, "generations/"), generations.Pointer(None)),
        ]

    def _has_remains(self) -> bool:
        """True if there are files of a database that are not just those of a folder whose making was interrupted."""
        if any(name.isdigit() for folder in ("inserts", "steps", "generations") for name in self.storage.list(folder)):
            return True
        catalog, record = self.initial_documents()[0]
        return catalog.exists() and self.storage.read(catalog.name) != catalog.bytes_of(record)

    def _take_lock(self) -> None:
        lock = open(self.root / "lock", "a+", opener=_private)  # noqa: SIM115 - held as long as the folder is open
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise errors.make("PIPELINE_IN_USE", folder=str(self.root), pid=holder) from None
        try:
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
        except OSError as problem:
            problem.filename = lock.name
            with contextlib.suppress(OSError):
                lock.close()
            raise
        self._lock = lock

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
