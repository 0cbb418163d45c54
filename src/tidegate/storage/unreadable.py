"""Files of sources that could not be read, as a data folder records them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.storage.documents import Document
from tidegate.storage.objects import Storage

NAME = "unreadable.json"


class Stamp(NamedTuple):
    """What changes when a file is written: its size, and its time in nanoseconds."""

    size: int
    modified_ns: int


class UnreadableFile(NamedTuple):
    """A file that the step went on without. `reason` is None while it is still being written. `stamp` is None if it was
    gone, or is to be tried again whether it changes or not (`again`)."""

    path: str
    step: int
    reason: str | None
    stamp: Stamp | None
    again: bool = False


@dataclass(frozen=True)
class UnreadableFiles:
    """The content of the document: files by relation."""

    files: Mapping[str, tuple[UnreadableFile, ...]]


NONE = UnreadableFiles({})


def document(storage: Storage) -> Document[UnreadableFiles]:
    """The document. It is written when a file cannot be read for the first time."""
    return Document(storage, NAME, "unreadable_files", UnreadableFiles)
