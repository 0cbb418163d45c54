"""What a data folder remembers beside the catalog: when relations were created, which statements of a script were
applied, and settings."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from tidegate.catalog.relation import TimeNote
from tidegate.core.files import write_atomically
from tidegate.storage.folder import Folder


class Refresh(NamedTuple):
    """The readings of a table: the entry of the first one, the time of the last one, and the digest of the rows that it
    could not read."""

    entry: int
    time_us: int
    refused: str


class Ledger:
    """A small JSON file, rewritten as a whole at every change."""

    def __init__(self, folder: Folder) -> None:
        self._path = folder.root / "ledger.json"

    def created(self, relation: str, step: int, entry: int) -> None:
        """A relation begins after this step and with this entry of the insert log."""
        data = self._read()
        data.setdefault("created", {})[relation] = [step, entry]
        data.get("refreshed", {}).pop(relation, None)
        self._write(data)

    def dropped(self, relation: str) -> None:
        data = self._read()
        for known in ("created", "refreshed"):
            data.get(known, {}).pop(relation, None)
        self._write(data)

    def refreshed(self, relation: str, entry: int, time_us: int, refused: str) -> None:
        """A table's whole content was read, and is in this entry of the insert log. `refused` stands for the rows that
        could not be read."""
        data = self._read()
        known = data.setdefault("refreshed", {})
        first = Refresh(*known[relation]).entry if relation in known else entry
        known[relation] = Refresh(first, time_us, refused)
        self._write(data)

    def refreshes(self) -> dict[str, Refresh]:
        """What is known of each table that is read as a whole."""
        return {relation: Refresh(*found) for relation, found in self._read().get("refreshed", {}).items()}

    def begun(self) -> dict[str, int]:
        """The step after which each relation begins."""
        return {relation: step for relation, (step, _) in self._read().get("created", {}).items()}

    def first_entries(self) -> dict[str, int]:
        """The first entry of the insert log that counts for each relation."""
        return {relation: entry for relation, (_, entry) in self._read().get("created", {}).items()}

    def applied(self, origin: str, statement: str) -> bool:
        return _digest(statement) in self._read().get("applied", {}).get(origin, [])

    def record(self, origin: str, statement: str) -> None:
        data = self._read()
        data.setdefault("applied", {}).setdefault(origin, []).append(_digest(statement))
        self._write(data)

    def setting(self, name: str) -> str | None:
        value: str | None = self._read().get("settings", {}).get(name)
        return value

    def set(self, name: str, value: str) -> None:
        data = self._read()
        data.setdefault("settings", {})[name] = value
        self._write(data)

    def expect_lateness(self, view: str, note: TimeNote) -> None:
        """LATENESS of a view that does not exist yet."""
        data = self._read()
        data.setdefault("lateness", {}).setdefault(view.casefold(), []).append([note.column, note.kind, note.sql])
        self._write(data)

    def expected_lateness(self, view: str) -> tuple[TimeNote, ...]:
        found = self._read().get("lateness", {}).get(view.casefold(), [])
        return tuple(TimeNote(*note) for note in found)

    def retention(self, default: int) -> int:
        """How many steps the log keeps."""
        return int(self.setting("retention_steps") or default)

    def _read(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        return data

    def _write(self, data: dict[str, Any]) -> None:
        write_atomically(self._path, json.dumps(data).encode())


def _digest(statement: str) -> str:
    """The same for two texts that differ in blanks only."""
    return hashlib.sha256(" ".join(statement.split()).encode()).hexdigest()[:24]
