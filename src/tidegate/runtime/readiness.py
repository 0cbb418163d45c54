"""Which tables are there: one that a connector fills is ready when all that its origin had was read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.step_log import StepLog

if TYPE_CHECKING:
    from tidegate.database import Database


def readiness(catalog: Catalog, ledger: Ledger, log: StepLog) -> dict[str, bool]:
    """Of every table that a connector fills, whether it was read to its end once."""
    header = log.header(log.last())
    loaded, begun, refreshes = header.get("loaded", {}), ledger.begun(), ledger.refreshes()
    return {
        table.name: loaded.get(table.name, 0) > begun.get(table.name, 0)
        or (table.name in refreshes and refreshes[table.name].entry < header.get("entry", 0))
        for table in catalog.of_kind("table")
        if table.connector is not None
    }


def check_ready(db: Database, relation: Relation) -> None:
    """A table that is still being read is not shown by half."""
    if readiness(db.catalog, db.ledger, db.log).get(relation.name, True):
        return
    running = db.running_now
    raise errors.make(
        "TABLE_NOT_READY",
        name=relation.name,
        hint=None if running else "it is read when the pipeline runs: db.step() or db.start(), or `tidegate run`",
    )
