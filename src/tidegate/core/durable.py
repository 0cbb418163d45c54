"""What sinks keep of themselves: files that are there completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tidegate import errors
from tidegate.core.files import PUBLIC, replacing, seal, sync_folder, unseal
from tidegate.core.files import write_atomically as write_private
from tidegate.core.records import Codec

__all__ = ["LastStep", "sync_folder", "write_atomically"]

KIND = "sink"
CODEC = Codec()


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replaces a file that users see, durably."""
    with replacing(path, PUBLIC) as file:
        write(file)


@dataclass(frozen=True)
class SinkRecord:
    """The last step that a creation of a sink has applied."""

    owner: str
    step: int


class LastStep:
    """The last step that a sink has applied, in a file of its own. The record of another creation of the sink does not
    count."""

    def __init__(self, folder: Path, owner: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._owner = folder / "last_step", owner
        record = self._read() if self._path.exists() else None
        self.step = record.step if record is not None and record.owner == owner else None

    def keep(self, step: int) -> None:
        """Records a step durably."""
        self.step = step
        document = json.dumps(CODEC.encode(SinkRecord(self._owner, step)))
        write_private(self._path, seal(KIND, document.encode()))

    def _read(self) -> SinkRecord:
        try:
            return CODEC.decode(SinkRecord, json.loads(unseal(KIND, self._path.read_bytes())))
        except ValueError as problem:
            raise errors.make("FOLDER_DAMAGED", file=self._path, reason=problem) from None
