"""How far a capture is: the position that is on record with its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.connectors.postgres.lsn import lsn_text, parse_lsn
from tidegate.connectors.postgres.origin import Form


@dataclass(frozen=True)
class Since:
    """Where a relation begins: what was committed before is in its snapshot, or not wanted. `oid` is the table that
    it is a copy of, `form` what that was like."""

    lsn: int
    oid: int | None = None
    form: Form | None = None


@dataclass(frozen=True)
class Place:
    """Everything before `lsn` is on record, for the relations in `since`. `life` is that of the capture's record, and
    `time_us` the last processing time that was given out."""

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


def place_of_json(found: Any, life: str) -> Place | None:
    """The place of a position; None if there is none, or it is of a capture that was forgotten."""
    if not found or found["life"] != life:
        return None
    tables = found["tables"].items()
    since = {name: Since(parse_lsn(said["since"]), said.get("oid"), _form(said.get("form"))) for name, said in tables}
    return Place(parse_lsn(found["lsn"]), life, since, found["time"])


def _form(said: Any) -> Form | None:
    return None if said is None else Form(*said)


def default_name(owner: str, database: str, publication: str | None = None) -> str:
    """A name for a slot and a publication that no other capture has. Slots are known to all databases of a server."""
    told = "\n".join([owner, database, *([] if publication is None else [publication])])
    return f"tidegate_{hashlib.sha256(told.encode()).hexdigest()[:12]}"
