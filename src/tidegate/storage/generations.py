"""The stored generations of a data folder: each one's record, and Spark's checkpoint beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidegate.circuit.model import Circuit
from tidegate.circuit.stored import KERNEL_VERSIONS, KINDS
from tidegate.connectors.contract import SourceSpec
from tidegate.core.failpoints import failpoint
from tidegate.core.files import write_atomically
from tidegate.core.records import Codec
from tidegate.storage.documents import MISSING, Document, damaged
from tidegate.storage.objects import LocalStorage, Storage, make_folders

FILE = "generation.json"
CODEC = Codec({**KINDS, "source": SourceSpec}, KERNEL_VERSIONS)
NO_OFFSET = "-"


@dataclass(frozen=True)
class FeedStart:
    """The first offset of a generation's feed."""

    entry: int
    tick: int
    time: int
    lines: Mapping[str, int | float | str | None]


@dataclass(frozen=True)
class GenerationRecord:
    """A generation as it is stored: `sources` in the order of Spark's offsets, `restore` relative to the folder of
    generations."""

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
    restore: tuple[str, ...]


@dataclass(frozen=True)
class Pointer:
    """The number of the newest generation, None before the first: so one that was removed is missed."""

    newest: int | None


def pointer(storage: Storage, prefix: str = "") -> Document[Pointer]:
    return Document(storage, f"{prefix}newest.json", "newest_generation", Pointer)


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
        found = max((number for number in self.numbers() if self.record(number).exists()), default=None)
        if expected is not None and (found is None or found < expected):
            raise damaged(self._storage.location(f"{expected}/{FILE}"), MISSING)
        return None if found is None else self.record(found).read()

    def record(self, number: int) -> Document[GenerationRecord]:
        return Document(self._storage, f"{number}/{FILE}", "generation", GenerationRecord, CODEC)

    def write(self, record: GenerationRecord) -> None:
        """Makes a generation the newest."""
        make_folders([self.home(record.number)])
        self.record(record.number).write(record)
        failpoint("generation.written")
        pointer(self._storage).write(Pointer(record.number))
        failpoint("generation.begun")

    def home(self, number: int) -> Path:
        return self.folder / str(number)

    def checkpoint(self, number: int) -> Path:
        return self.home(number) / "checkpoint"

    def forget_before(self, number: int) -> None:
        """Removes the generations before one that has committed a batch, and the state that it was restored from."""
        for each in self.numbers():
            if each < number:
                shutil.rmtree(self.home(each), ignore_errors=True)
        shutil.rmtree(self.home(number) / "state", ignore_errors=True)

    def committed(self, number: int) -> int | None:
        """The last batch that Spark has committed, None if there is none."""
        return max(_batches(self.checkpoint(number) / "commits"), default=None)

    def planned(self, number: int) -> int | None:
        """The last batch whose offsets are in Spark's write-ahead log."""
        return max(_batches(self.checkpoint(number) / "offsets"), default=None)

    def committed_step(self) -> int:
        """The last step that Spark has committed, by the newest generation."""
        record = self.newest()
        if record is None:
            return 0
        batch = self.committed(record.number)
        return record.base_step + (0 if batch is None else batch + 1)

    def consumed_entry(self) -> int:
        """The first entry of the insert log that no committed step has read, by the newest generation."""
        record = self.newest()
        if record is None:
            return 0
        batch = self.committed(record.number)
        if batch is None:
            return record.start.entry
        feed = self.offsets(record.number, batch)[0]
        return record.start.entry if feed == NO_OFFSET else int(json.loads(feed)["entry"])

    def sweep(self, number: int) -> None:
        """Removes what a generation that was killed before its first batch was planned has left behind: Spark does not
        begin in a folder that has so much as a temporary file in it."""
        if self.planned(number) is None and self.committed(number) is None:
            shutil.rmtree(self.checkpoint(number), ignore_errors=True)

    def offsets(self, number: int, batch: int) -> list[str]:
        """The offset of every source after a batch, as Spark wrote it: first the feed, then the connectors."""
        path = self.checkpoint(number) / "offsets" / str(batch)
        try:
            return _parsed_lines(path)[1:]
        except (OSError, ValueError) as problem:
            raise damaged(str(path), MISSING if isinstance(problem, OSError) else problem) from None

    def relocate(self, number: int) -> None:
        """Makes a checkpoint usable in a folder that was moved: Spark records the absolute paths of the schemas of its
        state."""
        checkpoint = self.checkpoint(number)
        for path in checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
            version, document = path.read_text(encoding="utf-8").split("\n", 1)
            metadata = json.loads(document)
            for store in metadata["stateStoreInfo"]:
                store["stateSchemaFilePaths"] = [_moved(each, checkpoint) for each in store["stateSchemaFilePaths"]]
            if metadata != json.loads(document):
                text = json.dumps(metadata, separators=(",", ":"))
                write_atomically(path, f"{version}\n{text}".encode())
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def next_number(self) -> int:
        """A number no generation has used, finished or not."""
        return max(self.numbers(), default=-1) + 1

    def check(self, number: int) -> None:
        """Raises FOLDER_DAMAGED if a file of Spark's write-ahead log cannot be read."""
        for path, problem in checkpoint_problems(self.checkpoint(number)):
            raise damaged(str(path), problem)


def checkpoint_problems(checkpoint: Path) -> Iterator[tuple[Path, str]]:
    """Files of Spark's write-ahead log that do not parse or are missing, with what is wrong."""
    if not checkpoint.exists():
        return
    planned, committed = _batches(checkpoint / "offsets"), _batches(checkpoint / "commits")
    if planned and not (checkpoint / "metadata").exists():
        yield checkpoint / "metadata", MISSING
    first = max(min(planned, default=0), min(committed, default=0))
    last = max((*planned, *committed), default=-1)
    for folder, there, until in (("offsets", planned, last), ("commits", committed, last - 1)):
        missing = sorted(set(range(first, until + 1)) - there)
        yield from ((checkpoint / folder / str(batch), MISSING) for batch in missing)
    found = [checkpoint / "metadata"] if (checkpoint / "metadata").exists() else []
    found += [checkpoint / "offsets" / str(each) for each in sorted(planned)]
    found += [checkpoint / "commits" / str(each) for each in sorted(committed)]
    for path in found:
        try:
            _parsed_lines(path)
        except (OSError, ValueError) as problem:
            yield path, str(problem)


def _moved(address: str, checkpoint: Path) -> str:
    """Where a file of a checkpoint is now, as Spark writes it; the address itself if it still holds."""
    now = f"file:{checkpoint}/{address.rpartition('/checkpoint/')[2]}"
    return address if now in (address, unquote(address)) else now


def _parsed_lines(path: Path) -> list[str]:
    """The lines after the version; ValueError unless each is JSON. Spark writes the metadata without a version."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.name != "metadata":
        if lines[:1] != ["v1"]:
            raise ValueError("its first line is damaged" if lines else "it is empty")
        lines = lines[1:]
    if not lines:
        raise ValueError("it is cut off")
    for line in lines:
        if line != NO_OFFSET:
            json.loads(line)
    return lines


def _batches(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()
