"""`INTO FILE`: the lines of each step at the end of a file, which is put aside when it is large or old."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.file.options import WriteOptions, write_options
from tidegate.connectors.stdout.sink import lines
from tidegate.core import durable
from tidegate.core.durable import sync_folder
from tidegate.core.options import Bag
from tidegate.errors import make


@dataclass(frozen=True)
class Record:
    """Bytes beyond `size` are of a step that was not finished. `since` is when the file was begun, in seconds since
    1970; `rotating`: the file is being put aside."""

    owner: str
    step: int | None = None
    size: int = 0
    since: float = 0.0
    rotating: bool = False


def place(path: Path) -> Path:
    """The record of a file is beside it, out of sight."""
    return path.with_name(f".{path.name}.tidegate")


def read_record(path: Path) -> Record | None:
    """The record of a file, None if nobody wrote one."""
    return durable.read_record(place(path), Record)


def write_record(path: Path, record: Record) -> None:
    durable.write_record(place(path), record)


def put_aside(path: Path, keep: int) -> None:
    """Can be done again after it was broken off anywhere: only names that are in the way move on."""
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
    taken = numbered(path, number)
    if not taken.exists():
        return
    if number == keep:
        taken.unlink()
        return
    _make_free(path, number + 1, keep)
    os.replace(taken, numbered(path, number + 1))


@dataclass
class FileSink(Sink):
    """A step counts once the record beside the file has its number and the file's length after it. What is beyond that
    length when a step is written is of a step that was broken off, and is cut away."""

    options: WriteOptions
    now: Callable[[], float] = time.time
    _record: Record | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> FileSink:
        return cls(spec, write_options(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog")

    def open(self, context: SinkContext) -> None:
        path = self.options.path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = read_record(path)
        if kept is None or kept.owner != context.owner:
            self._reject_content()
            kept = Record(context.owner)
            write_record(path, kept)
        self._record = kept
        if kept.rotating:
            self._rotate()
        self._cut()

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._record is not None
        if not changes.num_rows or (self._record.step is not None and step <= self._record.step):
            return
        self._cut()
        text = "".join(f"{line}\n" for line in lines(changes, self.spec, self.options.format)).encode()
        if self._due(len(text)):
            self._rotate()
        size, since = self._record.size, self._record.since if self._record.size else self.now()
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
        """Whether the file is put aside before so many bytes come. An empty one never is."""
        assert self._record is not None
        every = self.options.rotate_every
        old = every is not None and self.now() - self._record.since >= every.total_seconds()
        return self._record.size > 0 and (old or self._record.size + more > self.options.max_size)

    def _rotate(self) -> None:
        """On record before and after, so that it is finished whatever happens in between."""
        assert self._record is not None
        self._keep(replace(self._record, rotating=True))
        put_aside(self.options.path, self.options.keep)
        self._keep(replace(self._record, rotating=False, size=0))

    def _cut(self) -> None:
        """Makes file and record agree. A file that others have shortened or taken away goes on as it is."""
        assert self._record is not None
        path, size = self.options.path, self._record.size
        there = path.stat().st_size if path.exists() else 0
        if there > size:
            os.truncate(path, size)
        elif there < size:
            self._keep(replace(self._record, size=there))

    def _append(self, text: bytes) -> None:
        path = self.options.path
        new = not path.exists()
        with path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(path.parent)

    def _keep(self, kept: Record) -> None:
        write_record(self.options.path, kept)
        self._record = kept
