"""`tidegate tail`: follow the changes of a view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.changes import as_debezium, as_json, as_ops
from tidegate.cli.opening import open_database
from tidegate.database import runtime_of

if TYPE_CHECKING:
    from tidegate import Change, Database


def follow(folder: Path, view: str, start: int | None, format: str, timeout: float | None) -> None:
    """Print changes from step `start` (or from now) on, until Ctrl-C or `timeout` seconds without one."""
    with open_database(folder, read_only=True, spark=False) as db:
        snapshot = start is None and timeout == 0.0
        changes = db.subscribe(view, from_step=start, snapshot=snapshot, timeout=timeout)
        try:
            for line in _lines(db, view, changes, format):
                print(line, flush=True)
        except KeyboardInterrupt:
            return


def _lines(db: Database, view: str, changes: Iterable[Change], format: str) -> Iterator[str]:
    match format:
        case "json":
            return as_json(changes)
        case "debezium":
            return as_debezium(changes, view, runtime_of(db).catalog.value.readable(view).key or ())
        case _:
            return as_ops(changes)
