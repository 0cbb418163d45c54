"""Which tables can be read: one with a connector is ready once the snapshot of its source was applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate import errors
from tidegate.catalog.relation import Relation
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_log import StepLog

ALMOST = 0.99
TABLES = "tables"
"""The mark of the insert log that holds, for each captured table, the entry with its first content."""


class Readiness:
    """Tells for every table with a connector whether its snapshot was applied. `running` is True during a run."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        log: StepLog,
        inserts: InsertLog,
        ledger: Ledger,
        running: Callable[[], bool],
    ) -> None:
        self._catalog, self._log, self._inserts, self._ledger, self._running = catalog, log, inserts, ledger, running

    def by_table(self) -> dict[str, bool]:
        """True for each table with a connector that was read to its end once."""
        header = self._log.header(self._log.last())
        loaded, start_steps, first = header.loaded, self._ledger.start_steps(), self._ledger.first_entries()
        entries = {name: refresh.entry for name, refresh in self._ledger.refreshes().items()}
        captured: dict[str, int] = self._inserts.marks().get(TABLES, {})
        entries |= {name: entry for name, entry in captured.items() if entry >= first.get(name, 0)}
        return {
            table.name: loaded.get(table.name, 0) > start_steps.get(table.name, 0)
            or (table.name in entries and entries[table.name] < header.entry)
            for table in self._catalog.value.of_kind("table")
            if table.connector is not None
        }

    def missing(self) -> list[str]:
        """The tables that are still being read."""
        return [name for name, ready in self.by_table().items() if not ready]

    def check(self, relation: Relation) -> None:
        """Raise TABLE_NOT_READY for a table that is still being read: half a table is never shown."""
        if self.by_table().get(relation.name, True):
            return
        hint = "it is read when the pipeline runs: db.step() or db.start(), or `tidegate run`"
        raise errors.make("TABLE_NOT_READY", name=relation.name, hint=None if self._running() else hint)


class Shares:
    """How much of each table has been read, for a display. Spark knows the finished tasks of the job under way, and a
    table takes several jobs: a share never goes back, and is 1 only when the table is ready."""

    def __init__(self) -> None:
        self._shown: dict[str, float] = {}

    def update(self, missing: Iterable[str], finished: float) -> dict[str, float]:
        """The shares of all tables that were missing at first, after a share of the present job has finished."""
        left = set(missing)
        for table in left:
            self._shown[table] = max(self._shown.get(table, 0.0), min(finished, ALMOST))
        self._shown.update(dict.fromkeys(self._shown.keys() - left, 1.0))
        return dict(self._shown)
