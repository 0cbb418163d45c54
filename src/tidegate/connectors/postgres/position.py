"""The durable progress of a capture: its source position, and what it has created at the server."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.connectors.postgres.replication import lsn_text, parse_lsn
from tidegate.connectors.postgres.tables import Form
from tidegate.core.durable import read_record, write_record


class Clock:
    """A processing clock that never goes back, not even from one run to the next: `last` is part of the position."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.last = 0

    def now(self) -> int:
        self.last = max(self.last, self._now())
        return self.last

    def not_before(self, time_us: int) -> None:
        self.last = max(self.last, time_us)


@dataclass(frozen=True)
class Facts:
    """`confirmed`: a place, no further than which the server was ever told that everything is taken. `slot` and
    `publication`: whether they were made here. `life` tells this capture from one of the same name that was
    forgotten."""

    life: str
    confirmed: int = 0
    slot: bool = False
    publication: bool = False


class Record:
    """Facts in a file of their own, durable before what they speak of is done."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.json"
        known = read_record(self._path, Facts)
        self.facts = Facts(secrets.token_hex(8)) if known is None else known
        if known is None:
            write_record(self._path, self.facts)

    def keep(self, confirmed: int | None = None, slot: bool | None = None, publication: bool | None = None) -> None:
        given = {"confirmed": confirmed, "slot": slot, "publication": publication}
        facts = replace(self.facts, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        if facts != self.facts:
            write_record(self._path, facts)
            self.facts = facts

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Since:
    """Where a relation begins: what was committed before is in its snapshot, or not wanted. `oid` is the table that
    it is a copy of, `form` what that was like."""

    lsn: int
    oid: int | None = None
    form: Form | None = None


@dataclass(frozen=True)
class SourcePosition:
    """The position behind the last rows that were appended: for the relations in `since`, everything before `lsn` is in
    the insert log. `life` is that of the capture's record, `time_us` the last processing time given to an event."""

    lsn: int
    life: str
    since: Mapping[str, Since] = field(default_factory=dict)
    time_us: int = 0

    def to_json(self) -> dict[str, Any]:
        tables = {
            name: {"since": lsn_text(since.lsn), "oid": since.oid, "form": since.form}
            for name, since in self.since.items()
        }
        return {"lsn": lsn_text(self.lsn), "tables": tables, "life": self.life, "time": self.time_us}


def parse_position(found: Any, life: str) -> SourcePosition | None:
    """Parse a position; None if there is none, or if it belongs to a capture that was dropped."""
    if not found or found["life"] != life:
        return None
    tables = found["tables"].items()
    since = {name: Since(parse_lsn(said["since"]), said.get("oid"), _form(said.get("form"))) for name, said in tables}
    return SourcePosition(parse_lsn(found["lsn"]), life, since, found["time"])


def _form(said: Any) -> Form | None:
    return None if said is None else Form(*said)


def default_name(owner: str, database: str, publication: str | None = None) -> str:
    """A name for a slot and a publication that no other capture has. Slots are known to all databases of a server."""
    told = "\n".join([owner, database, *([] if publication is None else [publication])])
    return f"tidegate_{hashlib.sha256(told.encode()).hexdigest()[:12]}"
