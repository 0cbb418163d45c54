"""The rows of the system relations, read from the step log and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.catalog import Catalog, Relation
from tidegate.catalog.bus import EVENTS
from tidegate.runtime.state import StateSizes
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import StepLog

Row = dict[str, Any]
SIZES = ("state_rows", "state_bytes", "dropped_rows")


class SystemRelations:
    """`system.*` as lists of rows. `count` gives the number of rows of a kept relation, `ready` which tables with a
    connector are there, `dead_letters` what sinks could not deliver."""

    def __init__(
        self,
        log: StepLog,
        catalog: Callable[[], Catalog],
        count: Callable[[str], int],
        state: StateSizes,
        ready: Callable[[], Mapping[str, bool]],
        dead_letters: Callable[[], list[Row]] = list,
    ) -> None:
        self._dead_letters = dead_letters
        self._log, self._catalog, self._count, self._state, self._ready = log, catalog, count, state, ready

    def rows(self, name: str, as_of: int | None = None) -> list[Row]:
        """The rows of one system relation, by its name without the prefix."""
        readers: dict[str, Callable[[int], list[Row]]] = {
            "errors": self._errors,
            "late_rows": self._late_rows,
            "steps": self._steps,
            "views": self._views,
            "state": self._state.per_bucket,
            "tables": self._tables,
            "watermarks": self._watermarks,
            "waterlines": self._watermarks,
            "dead_letters": lambda end: [letter for letter in self._dead_letters() if letter["step"] <= end],
        }
        return readers[name](self._log.last() if as_of is None else as_of)

    def _errors(self, end: int) -> list[Row]:
        return [
            {**rejected._asdict(), "step": header.step, "time": _time(header)}
            for header in self._log.headers()
            if header.step <= end
            for rejected in header.errors
        ]

    def _late_rows(self, end: int) -> list[Row]:
        return [
            {
                "relation": late.relation,
                "view": late.view,
                "op": late.op,
                "column": late.column,
                "row": late.row,
                "waterline": late.watermark,
                "step": header.step,
                "time": _time(header),
            }
            for header in self._log.headers()
            if header.step <= end
            for late in self._log.late(header)
        ]

    def _steps(self, end: int) -> list[Row]:
        return [
            {
                "step": header.step,
                "started": _time(header),
                "millis": round(header.millis),
                "rows_in": sum(header.rows_in.values()),
                "rows_out": sum(changed.rows for changed in header.changes_per_relation().values()),
                "late": self._log.late_count(header),
                "errors": len(header.errors),
            }
            for header in self._log.headers()
            if header.step <= end
        ]

    def _views(self, end: int) -> list[Row]:
        sizes = self._state.per_view()
        return [
            {
                "name": view.name,
                "kind": view.changes,
                "emit": (view.emit or "changes").upper().replace("_", " "),
                "key": None if view.key is None else ", ".join(each for each in view.key if view.column(each)),
                "rows": self._count(view.name) if view.stored else None,
                **dict(zip(SIZES, sizes.get(view.name, (0, 0, 0) if view.stored else (None,) * 3), strict=True)),
            }
            for view in self._catalog().of_kind("view")
        ]

    def _tables(self, end: int) -> list[Row]:
        ready = self._ready()
        return [
            {
                "name": table.name,
                "primary_key": ", ".join(table.primary_key) or None,
                "row_count": self._count(table.name),
                "connector": table.connector.kind.upper() if table.connector else None,
                "ready": ready.get(table.name, True),
            }
            for table in self._catalog().of_kind("table")
        ]

    def _watermarks(self, end: int) -> list[Row]:
        watermarks = self._log.header(end).watermarks
        return [
            {"relation": relation.name, "column": column.name, "value": watermarks.get(path), "step": end}
            for relation in (EVENTS, *self._catalog())
            for column in relation.columns
            if (path := f"{relation.name}.{column.name}") in watermarks
            or (relation is not EVENTS and _declared(relation, column.name))
        ]


def _declared(relation: Relation, column: str) -> bool:
    return any(note.column == column and note.kind in ("watermark", "lateness") for note in relation.times)


def _time(header: StepHeader) -> datetime:
    return datetime.fromtimestamp(header.started, UTC)
