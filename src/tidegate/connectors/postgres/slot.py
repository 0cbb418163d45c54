"""The replication slot: the server's memory of what has not been taken yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.postgres.client import library
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.replication import lsn_text, parse_lsn
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
"""A warning comes when this much of `max_slot_wal_keep_size` is used."""


@dataclass(frozen=True)
class Slot:
    """A slot as it is now. `here` is how far the server is. `retained`: bytes of WAL that the server keeps for the
    slot; `lag`: bytes that it has not been told of as taken; `limit`: bytes after which the server gives it up, None if
    it never does."""

    name: str
    here: int
    confirmed: int
    holder: int | None
    status: str | None
    retained: int
    lag: int
    limit: int | None


def find_slot(connection: Any, name: str, server: Server) -> Slot | None:
    """The slot of a name, None if there is none; one that is for something else is an error."""
    row = connection.execute(_SLOT, (name,)).fetchone()
    if row is None:
        return None
    said, now, database, keep = row
    if said["plugin"] != "pgoutput" or said["database"] != database:
        kind = f"for database {said['database']}" if said["plugin"] == "pgoutput" else f"of {said['plugin'] or 'WAL'}"
        raise make(
            "PIPELINE_FAILED",
            message=f"slot {name} at {server.place} is one {kind}",
            hint="write slot = '...' with another name",
        )
    here = parse_lsn(now)
    oldest, confirmed = (parse_lsn(said[field] or now) for field in ("restart_lsn", "confirmed_flush_lsn"))
    limit = None if keep is None or keep < 0 else keep << 20
    status = said.get("wal_status")
    return Slot(name, here, confirmed, said["active_pid"], status, here - oldest, max(here - confirmed, 0), limit)


def check_whole(
    slot: Slot | None, name: str, taken: int | None, known: int, server: Server, names: Sequence[str]
) -> None:
    """A slot must still have everything that was not taken: `taken` is the place up to which changes are on record
    here (None: nothing yet), `known` the furthest place that the server was ever told."""
    if slot is not None and slot.status == "lost":
        why = "the server gave it up, because it held back more WAL than max_slot_wal_keep_size"
        raise _lost(f"slot {name} at {server.place} has lost changes", why, slot.confirmed, names)
    if taken is None:
        return
    if slot is None:
        raise _lost(f"slot {name} is gone from PostgreSQL at {server.place}", "it was dropped", taken, names)
    if slot.here < taken:
        why = "it was restored from an older backup, or it is another server"
        raise _lost(f"PostgreSQL at {server.place} is at {lsn_text(slot.here)}", why, slot.here, names)
    if slot.confirmed > known:
        why = "it was made anew, or something else has read it"
        raise _lost(f"slot {name} at {server.place} has moved on to {lsn_text(slot.confirmed)}", why, known, names)


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
    """Removes a slot if it is there, and ends whoever holds it: it was ours, and nobody needs it any more."""
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
    """Tells people once when a slot holds back so much that the disk may fill, and again after it was better."""

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
