"""`INTO FILE`: the lines of each step are appended to a file, which is rotated when it is large or old."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.file.options import FORMATS, WriteOptions
from tidegate.connectors.rows import lines
from tidegate.core import durable
from tidegate.core.durable import sync_folder
from tidegate.core.options import Bag, checked_format
from tidegate.errors import make


@dataclass(frozen=True)
class Record:
    """What a file contains: complete steps up to `step` in its first `size` bytes. `since` is the time of its first
    line, in seconds since 1970; `rotating` is true while the file is renamed."""

    owner: str
    step: int | None = None
    size: int = 0
    since: float = 0.0
    rotating: bool = False


def record_path(path: Path) -> Path:
    """The record of a file is a hidden file beside it."""
    return path.with_name(f".{path.name}.tidegate")


def read_record(path: Path) -> Record | None:
    """Return the record of a file, None if there is none."""
    return durable.read_record(record_path(path), Record)


def write_record(path: Path, record: Record) -> None:
    durable.write_record(record_path(path), record)


def rotate(path: Path, keep: int) -> None:
    """Rename a file to `.1`, the earlier `.1` to `.2`, and so on. Can be repeated after an interruption at any point:
    only names that are in the way are moved."""
    if path.exists():
        if keep:
            _make_free(path, 1, keep)
            os.replace(path, numbered(path, 1))
        else:
            path.unlink()
        sync_folder(path.parent)


def numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _make_free(path: Path, number: int, keep: int) -> None:
    occupied = numbered(path, number)
    if not occupied.exists():
        return
    if number == keep:
        occupied.unlink()
        return
    _make_free(path, number + 1, keep)
    os.replace(occupied, numbered(path, number + 1))


@dataclass
class FileSink(Sink):
    """Appends lines to a file. A step is complete once the record beside the file has its number and the file's length
    after it; bytes beyond that length belong to an interrupted step and are truncated."""

    options: WriteOptions
    format: str
    now: Callable[[], float] = time.time
    _record: Record | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> FileSink:
        return cls(spec, WriteOptions.take(bag), checked_format(bag, spec.format, FORMATS, "json"))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog")

    def open(self, context: SinkContext) -> None:
        path = self.options.path
        path.parent.mkdir(parents=True, exist_ok=True)
        record = read_record(path)
        if record is None or record.owner != context.owner:
            self._reject_content()
            record = Record(context.owner)
            write_record(path, record)
        self._record = record
        if record.rotating:
            self._rotate()
        self._truncate_incomplete()

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._record is not None
        if not changes.num_rows or (self._record.step is not None and step <= self._record.step):
            return
        self._truncate_incomplete()
        text = "".join(f"{line}\n" for line in lines(changes, self.spec, self.format)).encode()
        if self._due(len(text)):
            self._rotate()
        now = self.now()
        size, since = self._record.size, min(self._record.since, now) if self._record.size else now
        self._append(text)
        self._keep(replace(self._record, step=step, size=size + len(text), since=since))

    def last_step(self) -> int | None:
        return None if self._record is None else self._record.step

    def close(self) -> None:
        pass

    def _reject_content(self) -> None:
        path = self.options.path
        if path.exists() and path.stat().st_size:
            raise make(
                "INVALID_OPTION",
                message=f"{path} exists already and was not written by this sink",
                hint="choose another path, or move the file away",
            )

    def _due(self, more: int) -> bool:
        """True if the file must be rotated before `more` bytes are written. An empty one never is."""
        assert self._record is not None
        every = self.options.rotate_every
        old = every is not None and self.now() - self._record.since >= every.total_seconds()
        return self._record.size > 0 and (old or self._record.size + more > self.options.max_size)

    def _rotate(self) -> None:
        """Rotate the file. It is recorded before and after, so that an interrupted rotation is completed."""
        assert self._record is not None
        self._keep(replace(self._record, rotating=True))
        rotate(self.options.path, self.options.keep)
        self._keep(replace(self._record, rotating=False, size=0))

    def _truncate_incomplete(self) -> None:
        """Truncate what an interrupted step wrote. A file that others have truncated or moved is continued as it is."""
        assert self._record is not None
        path, size = self.options.path, self._record.size
        actual = path.stat().st_size if path.exists() else 0
        if actual > size:
            os.truncate(path, size)
        elif actual < size:
            self._keep(replace(self._record, size=actual))

    def _append(self, text: bytes) -> None:
        path = self.options.path
        new = not path.exists()
        with path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(path.parent)

    def _keep(self, record: Record) -> None:
        write_record(self.options.path, record)
        self._record = record
