"""The stored generations of a data folder: each one's record, and Spark's checkpoint beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.circuit.model import Circuit
from tidegate.circuit.stored import KERNEL_VERSIONS, KINDS
from tidegate.connectors.contract import SourceSpec
from tidegate.core.failpoints import failpoint
from tidegate.core.files import unseal
from tidegate.core.records import Codec
from tidegate.storage.checkpoint import NO_OFFSET, Checkpoint
from tidegate.storage.documents import MISSING, Document, damaged
from tidegate.storage.objects import LocalStorage, Storage, make_folders

FILE = "generation.json"
RESTORE = "restore"
CODEC = Codec({**KINDS, "source": SourceSpec}, KERNEL_VERSIONS)


@dataclass(frozen=True)
class FeedStart:
    """The first offset of a generation's feed."""

    entry: int
    tick: int
    time: int
    lines: Mapping[str, int | float | str | None]


@dataclass(frozen=True)
class GenerationRecord:
    """A generation as it is stored: `sources` in the order of Spark's offsets."""

    number: int
    base_step: int
    circuit: Circuit
    sources: tuple[SourceSpec, ...]
    fed: Mapping[str, int]
    fingerprint: str
    logged: frozenset[str]
    begun: Mapping[str, int]
    idle: Mapping[str, int]
    start: FeedStart
    positions: Mapping[str, Mapping[str, Any]]
    carried: frozenset[str]
    known_outputs: Mapping[str, str]


@dataclass(frozen=True)
class Pointer:
    """The number of the newest generation, None before the first: so one that was removed is missed."""

    newest: int | None


def pointer(storage: Storage, prefix: str = "") -> Document[Pointer]:
    return Document(storage, f"{prefix}newest.json", "newest_generation", Pointer)


class GenerationDocument(Document[GenerationRecord]):
    """A stored generation. In format 2 it also names files of state in `restore`, relative to the generations."""

    def parse(self, data: bytes) -> GenerationRecord:
        document = json.loads(unseal(self.kind, data))
        document.pop(RESTORE, None)
        return self.codec.decode(self.record, document)

    def restored_from(self) -> list[str]:
        """The files of state that a generation of format 2 begins with."""
        return list(json.loads(unseal(self.kind, self.storage.read(self.name))).get(RESTORE, []))


class GenerationFiles:
    """The folders of all generations, by number."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._storage = folder, LocalStorage(folder)

    def numbers(self) -> list[int]:
        """The numbers of all generations, begun or not, in order."""
        return sorted(int(name) for name in self._storage.list("") if name.isdigit())

    def newest(self) -> GenerationRecord | None:
        """The record of the newest generation that was begun; FOLDER_DAMAGED if it cannot be read."""
        expected = pointer(self._storage).read().newest
        newest = max((number for number in self.numbers() if self.record(number).exists()), default=None)
        if expected is not None and (newest is None or newest < expected):
            raise damaged(self._storage.location(f"{expected}/{FILE}"), MISSING)
        return None if newest is None else self.record(newest).read()

    def record(self, number: int) -> GenerationDocument:
        return GenerationDocument(self._storage, f"{number}/{FILE}", "generation", GenerationRecord, CODEC)

    def write(self, record: GenerationRecord) -> None:
        """Make a generation the newest."""
        make_folders([self.home(record.number)])
        self.record(record.number).write(record)
        failpoint("generation.written")
        pointer(self._storage).write(Pointer(record.number))
        failpoint("generation.begun")

    def home(self, number: int) -> Path:
        return self.folder / str(number)

    def checkpoint(self, number: int) -> Checkpoint:
        return Checkpoint(self.home(number) / "checkpoint")

    def forget_before(self, number: int) -> None:
        """Removes the generations before one that has committed a batch."""
        for each in self.numbers():
            if each < number:
                shutil.rmtree(self.home(each), ignore_errors=True)

    def committed_step(self) -> int:
        """The last step that Spark has committed, by the newest generation."""
        record = self.newest()
        if record is None:
            return 0
        return record.base_step + self.checkpoint(record.number).batches()

    def consumed_entry(self) -> int:
        """The first entry of the insert log that no committed step has read, by the newest generation."""
        record = self.newest()
        if record is None:
            return 0
        checkpoint = self.checkpoint(record.number)
        batch = checkpoint.committed()
        if batch is None:
            return record.start.entry
        feed = checkpoint.batch(batch).offsets[0]
        return record.start.entry if feed == NO_OFFSET else int(json.loads(feed)["entry"])

    def next_number(self) -> int:
        """A number that no generation has used, even an unfinished one."""
        return max(self.numbers(), default=-1) + 1

    def check_planned(self, last_step: int) -> None:
        """Raises FOLDER_DAMAGED if the batch of the last logged step is not in Spark's write-ahead log: a query that
        does not know it would begin again before it."""
        record = self.newest()
        if record is None or last_step <= record.base_step:
            return
        checkpoint, batch = self.checkpoint(record.number), last_step - record.base_step - 1
        planned = checkpoint.planned()
        if planned is None or planned < batch:
            raise damaged(str(checkpoint.folder / "offsets" / str(batch)), MISSING)

    def check(self, number: int) -> None:
        """Raises FOLDER_DAMAGED if a file of Spark's write-ahead log cannot be read."""
        for path, problem in self.checkpoint(number).problems():
            raise damaged(str(path), problem)
