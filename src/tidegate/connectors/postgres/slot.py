"""The replication slot of a capture, and the durable record of how far it was read."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.connectors.postgres.client import library
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.replication import lsn_text, parse_lsn
from tidegate.connectors.postgres.tables import Form
from tidegate.core.durable import read_record, write_record
from tidegate.core.retry import Backoff, retry
from tidegate.errors import Error, enumerated, make

_log = logging.getLogger(__name__)

_SLOT = """
SELECT to_jsonb(s), pg_current_wal_insert_lsn()::text, current_database(),
    (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size')
FROM pg_replication_slots s WHERE slot_name = %s
"""
_PATIENCE, _BACKOFF = 5.0, Backoff(first=0.02, longest=0.02)
_FULL = 0.8
"""Share of `max_slot_wal_keep_size` above which a warning is logged."""


class Clock:
    """A processing clock that never goes back, not even between runs: `last` is part of the position."""

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
    """What a capture has done at the server. `confirmed` is the highest LSN that was ever confirmed; `slot` and
    `publication` are true if the capture created them. `life` identifies this capture among those of the same name,
    which were dropped."""

    life: str
    confirmed: int = 0
    slot: bool = False
    publication: bool = False


class Record:
    """The facts of a capture in a file, which is written before the server is changed."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.json"
        stored = read_record(self._path, Facts)
        self.facts = Facts(secrets.token_hex(8)) if stored is None else stored
        if stored is None:
            write_record(self._path, self.facts)

    def keep(self, confirmed: int | None = None, slot: bool | None = None, publication: bool | None = None) -> None:
        new = {"confirmed": confirmed, "slot": slot, "publication": publication}
        facts = replace(self.facts, **{name: value for name, value in new.items() if value is not None})  # type: ignore[arg-type]
        if facts != self.facts:
            write_record(self._path, facts)
            self.facts = facts

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Since:
    """Where a relation begins: earlier transactions are in its snapshot, or left out. `oid` is the table that it
    copies, `form` the definition of that table at the time."""

    lsn: int
    oid: int | None = None
    form: Form | None = None


@dataclass(frozen=True)
class SourcePosition:
    """How far the slot was read: for the relations in `since`, everything before `lsn` is in the insert log. `life` is
    that of the capture's record, `time_us` the last processing time of an event."""

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


def parse_position(document: Any, life: str) -> SourcePosition | None:
    """Parse a position; None if there is none, or if it belongs to a capture that was dropped."""
    if not document or document["life"] != life:
        return None
    tables = document["tables"].items()
    since = {name: Since(parse_lsn(one["since"]), one.get("oid"), _form(one.get("form"))) for name, one in tables}
    return SourcePosition(parse_lsn(document["lsn"]), life, since, document["time"])


def _form(document: Any) -> Form | None:
    return None if document is None else Form(*document)


def default_name(owner: str, database: str, publication: str | None = None) -> str:
    """A name for a slot and a publication that no other capture has: the databases of a server share names of slots."""
    identity = "\n".join([owner, database, *([] if publication is None else [publication])])
    return f"tidegate_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Slot:
    """The state of a slot. `here` is the server's insert position, `retained` the bytes of WAL kept for the slot, `lag`
    the bytes not confirmed yet, `limit` the bytes at which the server invalidates the slot (None: never)."""

    name: str
    here: int
    confirmed: int
    holder: int | None
    status: str | None
    retained: int
    lag: int
    limit: int | None


def find_slot(connection: Any, name: str, server: Server) -> Slot | None:
    """Return the slot of a name, None if it does not exist; one of another plugin or database is an error."""
    row = connection.execute(_SLOT, (name,)).fetchone()
    if row is None:
        return None
    state, now, database, keep = row
    if state["plugin"] != "pgoutput" or state["database"] != database:
        plugin = state["plugin"]
        kind = f"for database {state['database']}" if plugin == "pgoutput" else f"of {plugin or 'WAL'}"
        raise make(
            "PIPELINE_FAILED",
            message=f"slot {name} at {server.place} is one {kind}",
            hint="write slot = '...' with another name",
        )
    here = parse_lsn(now)
    oldest, confirmed = (parse_lsn(state[field] or now) for field in ("restart_lsn", "confirmed_flush_lsn"))
    limit = None if keep is None or keep < 0 else keep << 20
    status = state.get("wal_status")
    return Slot(name, here, confirmed, state["active_pid"], status, here - oldest, max(here - confirmed, 0), limit)


def check_whole(
    slot: Slot | None, name: str, appended: int | None, highest: int, server: Server, names: Sequence[str]
) -> None:
    """Raise an error if the slot no longer has every change after `appended`, the LSN up to which changes are in
    the insert log (None: nothing yet). `highest` is the highest LSN that was ever confirmed."""
    if slot is not None and slot.status == "lost":
        why = "the server gave it up, because it held back more WAL than max_slot_wal_keep_size"
        raise _lost(f"slot {name} at {server.place} has lost changes", why, slot.confirmed, names)
    if appended is None:
        return
    if slot is None:
        raise _lost(f"slot {name} is gone from PostgreSQL at {server.place}", "it was dropped", appended, names)
    if slot.here < appended:
        why = "it was restored from an older backup, or it is another server"
        raise _lost(f"PostgreSQL at {server.place} is at {lsn_text(slot.here)}", why, slot.here, names)
    if slot.confirmed > highest:
        why = "it was made anew, or something else has read it"
        raise _lost(f"slot {name} at {server.place} has moved on to {lsn_text(slot.confirmed)}", why, highest, names)


def _lost(message: str, why: str, since: int, names: Sequence[str]) -> Error:
    return make(
        "PIPELINE_FAILED",
        message=message,
        detail=f"{why}; the changes since {lsn_text(since)} are lost to {enumerated(list(names), 'and')}",
        hint=f"DROP and CREATE {enumerated(list(names), 'and')} again: a table is then read as a whole, events go on"
        " from now",
    )


def in_use(name: str, holder: int | None, server: Server) -> Error:
    pid = f" {holder}" if holder is not None else ""
    end = f"; or end it: SELECT pg_terminate_backend({holder});" if holder is not None else ""
    return make(
        "PIPELINE_FAILED",
        message=f"slot {name} at {server.place} is in use by another process (of the server:{pid})",
        hint=f"stop what reads it, or write slot = '...' with a name of its own{end}",
    )


def drop_slot(connection: Any, name: str) -> None:
    """Drop a slot if it exists, and terminate the connection that holds it: the slot was created by this capture."""
    in_use = library().errors.ObjectInUse
    retry(lambda: _drop_slot(connection, name), lambda problem: isinstance(problem, in_use), _BACKOFF, _PATIENCE)


def _drop_slot(connection: Any, name: str) -> None:
    row = connection.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (name,)).fetchone()
    if row is None:
        return
    if row[0] is not None:
        connection.execute("SELECT pg_terminate_backend(%s)", (row[0],))
    connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))


class Watch:
    """Logs a warning when a slot retains so much WAL that the disk may fill; again only after that was over."""

    def __init__(self, most: int, server: Server) -> None:
        self._most, self._server = most, server
        self._warned = False

    def look(self, slot: Slot) -> None:
        reason = self._reason(slot)
        if reason is not None and not self._warned:
            size = size_text(slot.retained)
            _log.warning("slot %s at %s holds back %s of WAL: %s", slot.name, self._server.place, size, reason)
        self._warned = reason is not None

    def _reason(self, slot: Slot) -> str | None:
        if slot.limit is not None and (slot.status == "unreserved" or slot.retained > _FULL * slot.limit):
            return (
                f"the server gives it up at max_slot_wal_keep_size = {size_text(slot.limit)}, and changes would be"
                " lost; let the pipeline catch up, or raise that setting"
            )
        if slot.retained > self._most:
            return (
                f"more than max_slot_lag = {size_text(self._most)}, and the server's disk may fill; let the pipeline"
                " catch up, or drop what is not needed"
            )
        return None


def size_text(size: int) -> str:
    """`1.5 GB`"""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f}".removesuffix(".0") + f" {unit}"
