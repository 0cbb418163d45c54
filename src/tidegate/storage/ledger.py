"""What a data folder remembers beside the catalog: when relations were created, which statements of a script were
applied, and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tidegate.catalog.relation import TimeNote
from tidegate.core.failpoints import failpoint
from tidegate.storage.documents import Document
from tidegate.storage.objects import Storage

V = TypeVar("V")


class Refresh(NamedTuple):
    """The readings of a table: the entry of the first one, the time of the last one, and the digest of the rows that it
    could not read."""

    entry: int
    time_us: int
    refused: str


class Creation(NamedTuple):
    """The step after which a relation begins, and the first entry of the insert log that counts for it."""

    step: int
    entry: int


class Declared(NamedTuple):
    """A time annotation of a view that does not exist yet."""

    column: str
    kind: str
    sql: str | None


@dataclass(frozen=True)
class LedgerRecord:
    """The content of the file. `applied`: digests of statements by script; `lateness`: by the view's folded name."""

    created: Mapping[str, Creation]
    refreshed: Mapping[str, Refresh]
    applied: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, str]
    lateness: Mapping[str, tuple[Declared, ...]]


EMPTY = LedgerRecord({}, {}, {}, {}, {})


def document(storage: Storage) -> Document[LedgerRecord]:
    return Document(storage, "ledger.json", "ledger", LedgerRecord)


class Ledger:
    """A small JSON file, rewritten as a whole at every change."""

    def __init__(self, storage: Storage) -> None:
        self._document = document(storage)

    def created(self, relation: str, step: int, entry: int) -> None:
        """A relation begins after this step and with this entry of the insert log."""
        self._document.update(
            lambda old: replace(
                old,
                created={**old.created, relation: Creation(step, entry)},
                refreshed=_without(old.refreshed, relation),
            )
        )

    def dropped(self, relation: str) -> None:
        self._document.update(
            lambda old: replace(
                old, created=_without(old.created, relation), refreshed=_without(old.refreshed, relation)
            )
        )

    def refreshed(self, relation: str, entry: int, time_us: int, refused: str) -> None:
        """A table's whole content was read, and is in this entry of the insert log. `refused` stands for the rows that
        could not be read."""
        known = self._read().refreshed.get(relation)
        found = Refresh(entry if known is None else known.entry, time_us, refused)
        self._document.update(lambda old: replace(old, refreshed={**old.refreshed, relation: found}))

    def refreshes(self) -> dict[str, Refresh]:
        """What is known of each table that is read as a whole."""
        return dict(self._read().refreshed)

    def begun(self) -> dict[str, int]:
        """The step after which each relation begins."""
        return {relation: creation.step for relation, creation in self._read().created.items()}

    def first_entries(self) -> dict[str, int]:
        """The first entry of the insert log that counts for each relation."""
        return {relation: creation.entry for relation, creation in self._read().created.items()}

    def applied(self, origin: str, statement: str) -> bool:
        return _digest(statement) in self._read().applied.get(origin, ())

    def record(self, origin: str, statement: str) -> None:
        """A statement of a script was applied."""
        digests = (*self._read().applied.get(origin, ()), _digest(statement))
        self._document.update(lambda old: replace(old, applied={**old.applied, origin: digests}))
        failpoint("ledger.written")

    def setting(self, name: str) -> str | None:
        return self._read().settings.get(name)

    def set(self, name: str, value: str) -> None:
        self._document.update(lambda old: replace(old, settings={**old.settings, name: value}))

    def expect_lateness(self, view: str, note: TimeNote) -> None:
        """LATENESS of a view that does not exist yet."""
        name = view.casefold()
        notes = (*self._read().lateness.get(name, ()), Declared(note.column, note.kind, note.sql))
        self._document.update(lambda old: replace(old, lateness={**old.lateness, name: notes}))

    def expected_lateness(self, view: str) -> tuple[TimeNote, ...]:
        return tuple(TimeNote(*note) for note in self._read().lateness.get(view.casefold(), ()))

    def retention(self, default: int) -> int:
        """How many steps the log keeps."""
        return int(self.setting("retention_steps") or default)

    def _read(self) -> LedgerRecord:
        return self._document.read()


def _without(items: Mapping[str, V], name: str) -> dict[str, V]:
    return {key: value for key, value in items.items() if key != name}


def _digest(statement: str) -> str:
    """The same for two texts that differ in blanks only."""
    return hashlib.sha256(" ".join(statement.split()).encode()).hexdigest()[:24]
