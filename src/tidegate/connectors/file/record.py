"""What is known for certain about a file: whose it is, its last step and its length after it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tidegate.core.durable import write_atomically


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


def found(path: Path) -> Record | None:
    """The record of a file, None if nobody wrote one."""
    kept = place(path)
    return Record(**json.loads(kept.read_text())) if kept.exists() else None


def keep(path: Path, record: Record) -> None:
    text = json.dumps(asdict(record))
    write_atomically(place(path), lambda file: file.write(text.encode()))
