"""What a data folder records beside the catalog: when relations were created, which statements of a script were
applied, and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
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


class ScriptStatement(NamedTuple):
    """A statement of a script. `origin` names the script; texts that differ in blanks only have the same digest."""

    origin: str
    digest: str

    @classmethod
    def of(cls, origin: str, text: str) -> ScriptStatement:
        return cls(origin, digest_of(text))

    @property
    def mark(self) -> str:
        """The mark of the insert log that names the newest data change of this script."""
        return f"script:{self.origin}"


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
        """Record that a relation begins after this step and with this entry of the insert log."""
        self._document.update(
            lambda old: replace(
                old,
                created={**old.created, relation: Creation(step, entry)},
                refreshed=_without(old.refreshed, relation),
            )
        )

    def dropped(self, relations: Collection[str], script: ScriptStatement | None = None) -> None:
        """Record that relations were dropped. A DROP of a script is recorded as applied in the same write."""
        self._document.update(
            lambda old: replace(
                old if script is None else _with_applied(old, script),
                created=_without(old.created, *relations),
                refreshed=_without(old.refreshed, *relations),
            )
        )

    def remembers(self, relation: str) -> bool:
        """True if a relation was created, and the ledger does not know that it was dropped."""
        return relation.casefold() in map(str.casefold, self._read().created)

    def refreshed(self, relation: str, entry: int, time_us: int, rejected_digest: str) -> None:
        """Record that a table's whole content was read into this entry of the insert log. `rejected_digest`: that of
        the rows that could not be read."""
        earlier = self._read().refreshed.get(relation)
        refresh = Refresh(entry if earlier is None else earlier.entry, time_us, rejected_digest)
        self._document.update(lambda old: replace(old, refreshed={**old.refreshed, relation: refresh}))

    def refreshes(self) -> dict[str, Refresh]:
        """The refreshes of each table that is read as a whole."""
        return dict(self._read().refreshed)

    def start_steps(self) -> dict[str, int]:
        """The step after which each relation begins."""
        return {relation: creation.step for relation, creation in self._read().created.items()}

    def first_entries(self) -> dict[str, int]:
        """The first entry of the insert log that counts for each relation."""
        return {relation: creation.entry for relation, creation in self._read().created.items()}

    def applied(self, statement: ScriptStatement) -> bool:
        """True if a statement of a script was applied."""
        return statement.digest in self._read().applied.get(statement.origin, ())

    def record(self, statement: ScriptStatement) -> None:
        """Record that a statement of a script was applied."""
        if not self.applied(statement):
            self._document.update(lambda old: _with_applied(old, statement))
        failpoint("ledger.written")

    def setting(self, name: str) -> str | None:
        return self._read().settings.get(name)

    def set(self, name: str, value: str) -> None:
        self._document.update(lambda old: replace(old, settings={**old.settings, name: value}))

    def expect_lateness(self, view: str, note: TimeNote) -> None:
        """Record the LATENESS of a view that does not exist yet."""
        name = view.casefold()
        others = (each for each in self._read().lateness.get(name, ()) if each.column != note.column)
        notes = (*others, Declared(note.column, note.kind, note.sql))
        self._document.update(lambda old: replace(old, lateness={**old.lateness, name: notes}))

    def expected_lateness(self, view: str) -> tuple[TimeNote, ...]:
        return tuple(TimeNote(*note) for note in self._read().lateness.get(view.casefold(), ()))

    def retention(self, default: int) -> int:
        """How many steps the log keeps."""
        return int(self.setting("retention_steps") or default)

    def _read(self) -> LedgerRecord:
        return self._document.read()


def _with_applied(record: LedgerRecord, statement: ScriptStatement) -> LedgerRecord:
    digests = (*record.applied.get(statement.origin, ()), statement.digest)
    return replace(record, applied={**record.applied, statement.origin: digests})


def _without(items: Mapping[str, V], *names: str) -> dict[str, V]:
    return {key: value for key, value in items.items() if key not in names}


def digest_of(statement: str) -> str:
    """A digest of a text that does not depend on whitespace."""
    return hashlib.sha256(" ".join(statement.split()).encode()).hexdigest()[:24]
