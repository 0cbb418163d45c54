"""Which tables are there: one that a connector fills is ready when all that its origin had was read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.catalog.relation import Relation

if TYPE_CHECKING:
    from tidegate.database import Database


TABLES = "tables"
"""The mark of the insert log that has the entry with each captured table's first content."""


def readiness(db: Database) -> dict[str, bool]:
    """Of every table that a connector fills, whether it was read to its end once."""
    header = db.log.header(db.log.last())
    loaded, begun, first = header.loaded, db.ledger.begun(), db.ledger.first_entries()
    entries = {name: refresh.entry for name, refresh in db.ledger.refreshes().items()}
    captured: dict[str, int] = db.inserts.marks().get(TABLES, {})
    entries |= {name: entry for name, entry in captured.items() if entry >= first.get(name, 0)}
    return {
        table.name: loaded.get(table.name, 0) > begun.get(table.name, 0)
        or (table.name in entries and entries[table.name] < header.entry)
        for table in db.catalog.of_kind("table")
        if table.connector is not None
    }


def check_ready(db: Database, relation: Relation) -> None:
    """A table that is still being read is not shown by half."""
    if readiness(db).get(relation.name, True):
        return
    running = db.running_now
    raise errors.make(
        "TABLE_NOT_READY",
        name=relation.name,
        hint=None if running else "it is read when the pipeline runs: db.step() or db.start(), or `tidegate run`",
    )
