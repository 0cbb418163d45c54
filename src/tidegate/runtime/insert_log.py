"""The insert log: what users insert, durable before the call returns, read by Spark as a stream, exactly once.

One file per entry, numbered from 0; an entry may hold rows of several relations and is always read whole, so it is
atomic. `HEAD` says how many entries there are; it is only a hint for readers: the files are the truth.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.runtime import container
from tidegate.runtime.container import Part

HEAD = "HEAD"


class InsertLog:
    """The writing end (one process) and the reading end (any process) of a pipeline's insert log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()

    def open_for_writing(self) -> None:
        """Recovers the head after a crash: an entry that was renamed into place counts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._publish(max((number + 1 for number in self._numbers()), default=self.head()))

    def head(self) -> int:
        """The number of entries so far: the number the next one gets."""
        try:
            return int((self.folder / HEAD).read_text())
        except FileNotFoundError:
            return 0

    def append(self, parts: Sequence[tuple[str, pa.Table, int]], header: dict[str, Any] | None = None) -> int:
        """Appends one entry of (relation, rows, weight) parts in order, durably; returns its number."""
        with self._lock:
            number = self.head()
            container.write(
                self._path(number),
                header or {},
                [Part(name, table, {"weight": weight}) for name, table, weight in parts],
            )
            self._publish(number + 1)
            return number

    def read(self, number: int, only: set[str] | None = None) -> tuple[dict[str, Any], list[Part]]:
        return container.read(self._path(number), only)

    def entries(
        self, start: int, end: int, only: set[str] | None = None
    ) -> Iterator[tuple[int, dict[str, Any], list[Part]]]:
        """Entries start <= number < end, in order."""
        for number in range(start, end):
            header, parts = self.read(number, only)
            yield number, header, parts

    def forget(self, before: int) -> None:
        """Removes entries that are processed and no longer wanted."""
        for number in self._numbers():
            if number < before:
                self._path(number).unlink(missing_ok=True)

    def first(self) -> int:
        """The oldest entry still kept (the head if none is)."""
        return min(self._numbers(), default=self.head())

    def _numbers(self) -> list[int]:
        return [int(entry.name) for entry in os.scandir(self.folder) if entry.name.isdigit()]

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}"

    def _publish(self, head: int) -> None:
        temporary = self.folder / ".HEAD"
        temporary.write_text(str(head))
        os.replace(temporary, self.folder / HEAD)
