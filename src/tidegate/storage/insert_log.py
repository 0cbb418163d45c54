"""The insert log: what users insert, durable before the call returns, read by Spark as a stream, exactly once.

One file per entry, numbered from 0; an entry may hold rows of several relations and is always read whole, so it is
atomic. `HEAD` holds the number of entries; it is only a hint for readers: the files are the truth. *Marks* are
values that a writer stores with its rows, such as the position of a capture: each entry carries all of them, so they
are as durable as the rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
from xxhash import xxh32_hexdigest

from tidegate.core.failpoints import failpoint
from tidegate.core.records import Codec
from tidegate.storage import container
from tidegate.storage.container import Part
from tidegate.storage.documents import MISSING, damaged
from tidegate.storage.objects import Data, Storage
from tidegate.storage.step_header import RejectedRow

HEAD = "HEAD"
CODEC = Codec()


@dataclass(frozen=True)
class EntryHeader:
    """An entry without its rows: watermarks that a writer set, by column; rows that could not be read; the step whose
    late rows it holds; the marks of all writers."""

    advance: Mapping[str, int | float | str] = field(default_factory=dict)
    errors: tuple[RejectedRow, ...] = ()
    late_of: int | None = None
    marks: Mapping[str, Any] = field(default_factory=dict)


class InsertLog:
    """The writing end (one process) and the reading end (any process) of a pipeline's insert log."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.lock = threading.RLock()
        self.complete: Callable[[str, pa.Table], pa.Table] = lambda _, rows: rows
        self._marks: dict[str, Any] | None = None
        self._withdrawn: int | None = None

    def open_for_writing(self) -> None:
        """Recover the head after a crash: an entry whose file exists counts."""
        self._marks = None
        self._publish(self._head_of_files())

    def check(self, needed: int, read: int) -> None:
        """Raises FOLDER_DAMAGED if an entry is missing: one in between, one from `needed` on, or the newest. Steps have
        read `read` entries, so there were at least as many."""
        numbers = sorted(self.numbers())
        expected = max(self._published() or 0, needed, read)
        if not numbers and expected:
            raise self._missing(expected - 1)
        if numbers and numbers[0] > needed:
            raise self._missing(needed)
        for before, number in pairwise(numbers):
            if number != before + 1:
                raise self._missing(before + 1)
        if numbers and numbers[-1] + 1 < expected:
            raise self._missing(numbers[-1] + 1)

    def head(self) -> int:
        """The number of entries so far, which is the number of the next one."""
        published = self._published()
        return self._head_of_files() if published is None else published

    def append(
        self,
        parts: Sequence[tuple[str, pa.Table, int]],
        header: EntryHeader | None = None,
        marks: Mapping[str, Any] | None = None,
    ) -> int:
        """Appends one entry of (relation, rows, weight) parts in order, durably; returns its number. Missing values are
        filled in here, under the lock: no event gets an earlier time than one that could be read before it."""
        with self.lock:
            number, own = self.head(), header or EntryHeader()
            all_marks = {**self.marks(), **(marks or {})}
            document = CODEC.encode(EntryHeader(own.advance, own.errors, own.late_of, all_marks))
            completed = [Part(name, self.complete(name, table), weight) for name, table, weight in parts]
            self._write(number, container.encode_all(document, completed))
            failpoint("insert_log.entry_written")
            try:
                self._publish(number + 1)
            except OSError:
                # The caller learns that nothing was appended, so nothing may be: not here, and not after a restart.
                self._withdrawn = number
                with suppress(OSError):
                    self._storage.delete(_name(number))
                raise
            self._marks = all_marks
            return number

    def _write(self, number: int, data: Sequence[Data]) -> None:
        if number == self._withdrawn:
            self._storage.put(_name(number), *data)
        elif not self._storage.put_if_absent(_name(number), *data):
            raise damaged(self._storage.location(HEAD), f"entry {number} is there already")
        self._withdrawn = None

    def marks(self) -> dict[str, Any]:
        """The marks of the newest entry."""
        with self.lock:
            if self._marks is None:
                newest = max(self.numbers(), default=None)
                self._marks = {} if newest is None else dict(self.header(newest).marks)
            return self._marks

    def header(self, number: int) -> EntryHeader:
        """The header of an entry, without its rows."""
        return self._decoded(number, container.read_header(self._storage, _name(number)))

    def read(self, number: int, only: set[str] | None = None) -> tuple[EntryHeader, list[Part]]:
        """An entry, or its parts of some relations."""
        document, parts = container.read(self._storage, _name(number), only)
        return self._decoded(number, document), parts

    def size(self, number: int) -> int:
        """The number of bytes of an entry."""
        size = self._storage.size(_name(number))
        if size is None:
            raise self._missing(number)
        return size

    def entries(
        self, start: int, end: int, only: set[str] | None = None
    ) -> Iterator[tuple[int, EntryHeader, list[Part]]]:
        """Entries start <= number < end, in order."""
        for number in range(start, end):
            header, parts = self.read(number, only)
            yield number, header, parts

    def forget(self, before: int) -> None:
        """Remove entries before one; the newest stays, for its marks."""
        for number in sorted(self.numbers()):
            if number < min(before, self.head() - 1):
                self._storage.delete(_name(number))

    def first(self) -> int:
        """The oldest entry (the head if there is none)."""
        return min(self.numbers(), default=self.head())

    def numbers(self) -> list[int]:
        """The numbers of all entries, in no order."""
        return [int(name) for name in self._storage.list("") if name.isdigit()]

    def _decoded(self, number: int, document: Any) -> EntryHeader:
        try:
            return CODEC.decode(EntryHeader, document)
        except ValueError as problem:
            raise damaged(self._storage.location(_name(number)), problem) from None

    def _missing(self, number: int) -> Exception:
        return damaged(self._storage.location(_name(number)), MISSING)

    def _head_of_files(self) -> int:
        return max(self.numbers(), default=-1) + 1

    def _published(self) -> int | None:
        """The number in HEAD, None if it cannot be read: then the files are counted."""
        try:
            text, _, checksum = self._storage.read(HEAD).decode("ascii").partition(" ")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return int(text) if text.isdigit() and checksum == xxh32_hexdigest(text.encode()) else None

    def _publish(self, head: int) -> None:
        text = str(head)
        self._storage.put(HEAD, f"{text} {xxh32_hexdigest(text.encode())}".encode(), durable=False)


def _name(number: int) -> str:
    return f"{number:012d}"
