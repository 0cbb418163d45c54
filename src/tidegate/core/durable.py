"""Durable state of connectors: files that are written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from tidegate import errors
from tidegate.core import files
from tidegate.core.files import sync_folder as sync_folder
from tidegate.core.records import Codec

KIND = "record"
CODEC = Codec()
T = TypeVar("T")


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replaces a file that users see, durably."""
    with files.replacing(path, files.PUBLIC) as file:
        write(file)


def write_record(path: Path, record: object) -> None:
    """Replaces a small record (a dataclass), durably and with a checksum."""
    document = json.dumps(CODEC.encode(record))
    files.write_atomically(path, files.seal(KIND, document.encode()))


def read_record(path: Path, expected: type[T]) -> T | None:
    """Read the record in a file, None if there is no such file; FOLDER_DAMAGED if its checksum does not match."""
    try:
        return CODEC.decode(expected, json.loads(files.unseal(KIND, path.read_bytes())))
    except FileNotFoundError:
        return None
    except ValueError as problem:
        raise errors.make("FOLDER_DAMAGED", file=path, reason=problem) from None


@dataclass(frozen=True)
class SinkRecord:
    """The last step that a creation of a sink has applied."""

    owner: str
    step: int


class LastStep:
    """The last step that a sink has applied, in its own file. The record of an earlier sink of the same name is
    ignored."""

    def __init__(self, folder: Path, owner: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._owner = folder / "last_step", owner
        record = read_record(self._path, SinkRecord)
        self.step = record.step if record is not None and record.owner == owner else None

    def keep(self, step: int) -> None:
        """Records a step durably."""
        self.step = step
        write_record(self._path, SinkRecord(self._owner, step))
