"""Files that are there completely or not at all, and stay there when the machine stops."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes under a temporary name (which readers of the folder ignore), then renames; replaces what was there."""
    temporary = path.with_name(f"_{path.name}.tmp")
    with temporary.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


class LastStep:
    """The last step that a sink has applied, in a file of its own. What another creation of the sink left there does
    not count."""

    def __init__(self, folder: Path, owner: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._owner = folder / "last_step", owner
        found, _, last = self._path.read_text().partition("\n") if self._path.exists() else ("", "", "")
        self.step = int(last) if found == owner else None

    def keep(self, step: int) -> None:
        self.step = step
        write_atomically(self._path, lambda file: file.write(f"{self._owner}\n{step}".encode()))


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
