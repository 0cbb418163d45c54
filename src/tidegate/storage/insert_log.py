"""The insert log: what users insert, durable before the call returns, read by Spark as a stream, exactly once.

One file per entry, numbered from 0; an entry may hold rows of several relations and is always read whole, so it is
atomic. `HEAD` says how many entries there are; it is only a hint for readers: the files are the truth. *Marks* are what
whoever appends wants to find again, such as how far a capture has read: each entry carries all of them, so they are as
durable as the rows that they belong to.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.catalog.bus import BUS, TIME
from tidegate.storage import container
from tidegate.storage.container import Part

HEAD = "HEAD"


class InsertLog:
    """The writing end (one process) and the reading end (any process) of a pipeline's insert log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1000
        self._marks: dict[str, Any] | None = None

    def open_for_writing(self) -> None:
        """Recovers the head after a crash: an entry that was renamed into place counts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._marks = None
        self._publish(max((number + 1 for number in self._numbers()), default=self.head()))

    def head(self) -> int:
        """The number of entries so far: the number the next one gets."""
        try:
            return int((self.folder / HEAD).read_text())
        except FileNotFoundError:
            return 0

    def append(
        self,
        parts: Sequence[tuple[str, pa.Table, int]],
        header: dict[str, Any] | None = None,
        marks: Mapping[str, Any] | None = None,
    ) -> int:
        """Appends one entry of (relation, rows, weight) parts in order, durably; returns its number. Events get their
        time here, so that no event is behind one that could be read before it."""
        with self.lock:
            number = self.head()
            known = {**self.marks(), **(marks or {})}
            container.write(
                self._path(number),
                {**(header or {}), **({"marks": known} if known else {})},
                [Part(name, self._stamped(name, table), {"weight": weight}) for name, table, weight in parts],
            )
            self._marks = known
            self._publish(number + 1)
            return number

    def marks(self) -> dict[str, Any]:
        """The marks of the newest entry."""
        with self.lock:
            if self._marks is None:
                newest = max(self._numbers(), default=None)
                found = {} if newest is None else container.read_header(self._path(newest)).get("marks", {})
                self._marks = dict(found)
            return self._marks

    def _stamped(self, relation: str, rows: pa.Table) -> pa.Table:
        """Events with an id, an operation and a time."""
        if relation != BUS or not rows.num_rows:
            return rows
        time_type = rows.schema.field(TIME).type
        filled = {
            "id": pa.array([str(uuid.uuid4()) for _ in range(rows.num_rows)]) if rows.column("id").null_count else None,
            "operation": "INSERT",
            TIME: pa.scalar(self.clock(), pa.int64()).cast(time_type),
        }
        for name, value in filled.items():
            if value is not None and rows.column(name).null_count:
                place = rows.schema.get_field_index(name)
                rows = rows.set_column(place, rows.schema.field(name), pc.coalesce(rows.column(name), value))
        return rows

    def read(self, number: int, only: set[str] | None = None) -> tuple[dict[str, Any], list[Part]]:
        return container.read(self._path(number), only)

    def size(self, number: int) -> int:
        """How many bytes an entry has."""
        return self._path(number).stat().st_size

    def entries(
        self, start: int, end: int, only: set[str] | None = None
    ) -> Iterator[tuple[int, dict[str, Any], list[Part]]]:
        """Entries start <= number < end, in order."""
        for number in range(start, end):
            header, parts = self.read(number, only)
            yield number, header, parts

    def forget(self, before: int) -> None:
        """Removes entries that are processed and no longer wanted; the newest stays, for its marks."""
        for number in self._numbers():
            if number < min(before, self.head() - 1):
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
