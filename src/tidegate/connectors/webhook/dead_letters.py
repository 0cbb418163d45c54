"""Requests that could not be delivered, and the progress within a step, in files of the sink."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

from tidegate.core.durable import sync_folder

FILE = "dead_letters.jsonl"
FIELDS = ("sink", "step", "id", "status", "error", "body", "time")


def dead_letters(folder: Path) -> list[dict[str, Any]]:
    """Return the dead letters of a sink, oldest first: sink, step, id, status (None without a response), error, body,
    time. One that was written twice, by a killed process and by the next, appears once."""
    path = folder / FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    by_id = {letter["id"]: letter for letter in map(json.loads, lines)}
    return [{**letter, "time": dt.datetime.fromisoformat(letter["time"])} for letter in by_id.values()]


class DeadLetters:
    """Appends dead letters to the file, after removing a line that a crash left incomplete."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        if self._path.exists():
            _truncate_incomplete(self._path)

    def put(self, sink: str, step: int, id: str, status: int | None, error: str, body: str) -> None:
        """Append a dead letter; it is durable when this returns."""
        time = dt.datetime.now(dt.UTC).isoformat()
        line = json.dumps(dict(zip(FIELDS, (sink, step, id, status, error, body, time), strict=True)))
        is_new = not self._path.exists()
        with self._path.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self._path.parent)


def _truncate_incomplete(path: Path) -> None:
    with path.open("rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


class Progress:
    """The number of requests of a step that are done. It survives a kill, but is not synced to disk: after a power
    failure a step is posted from its beginning."""

    def __init__(self, folder: Path, owner: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._owner = folder / "progress", owner
        self._step, self._done = self._read()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)

    def of(self, step: int) -> int:
        """Return the number of requests of a step that are done."""
        return self._done if step == self._step else 0

    def keep(self, step: int, delivered: int) -> None:
        self._step, self._done = step, delivered
        os.pwrite(self._file, f"{step:>20} {delivered:>20}\n{self._owner}\n".encode(), 0)

    def close(self) -> None:
        os.close(self._file)

    def _read(self) -> tuple[int, int]:
        if not self._path.exists():
            return -1, 0
        head, _, owner = self._path.read_text(encoding="utf-8").partition("\n")
        numbers = head.split()
        return (int(numbers[0]), int(numbers[1])) if owner.split("\n")[0] == self._owner else (-1, 0)
