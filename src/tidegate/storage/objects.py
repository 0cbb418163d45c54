"""The one interface between Tidegate and the storage of a data folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tidegate.core.files import is_temporary, replacing, sync_folder

Data = bytes | memoryview
FOLDER_MODE = 0o700


class Storage(Protocol):
    """Whole objects under names such as `steps/000000000001`. What `put` has returned from survives a crash."""

    def put(self, name: str, *data: Data, durable: bool = True) -> None:
        """Write or replace an object atomically. Not `durable`: a crash may lose it."""
        ...

    def put_if_absent(self, name: str, *data: Data) -> bool:
        """Writes an object unless there is one of that name; False if there is."""
        ...

    def read(self, name: str) -> bytes:
        """The whole object; FileNotFoundError if there is none."""
        ...

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of an object, fewer where it ends before; FileNotFoundError if there is none."""
        ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, without the folder's."""
        ...

    def delete(self, name: str) -> None:
        """Remove an object if it exists."""
        ...

    def size(self, name: str) -> int | None:
        """The number of bytes of an object, None if there is none."""
        ...

    def location(self, name: str) -> str:
        """Where an object is, for messages."""
        ...


class LocalStorage:
    """Objects as files under a folder; nobody but the owner can read them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, name: str, *data: Data, durable: bool = True) -> None:
        with replacing(self._root / name, durable=durable) as file:
            for each in data:
                file.write(each)

    def put_if_absent(self, name: str, *data: Data) -> bool:
        try:
            with replacing(self._root / name, absent=True) as file:
                for each in data:
                    file.write(each)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with open(self._root / name, "rb", buffering=0) as file:
            file.seek(start)
            return file.read(length)

    def list(self, folder: str) -> list[str]:
        try:
            return [entry.name for entry in os.scandir(self._root / folder) if not is_temporary(entry.name)]
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def size(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def location(self, name: str) -> str:
        return str(self._root / name)


def make_folders(folders: Iterable[Path]) -> None:
    """Makes folders that only the owner can enter, durably."""
    for folder in folders:
        if not folder.exists():
            folder.mkdir(mode=FOLDER_MODE, parents=True)
            sync_folder(folder.parent)
