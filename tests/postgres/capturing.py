"""Helpers of the capture tests: an insert log in memory, and captures that run until a condition holds."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.servers.postgres import PASSWORD
from tests.servers.processes import wait_until
from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, RejectedRow, Rows, SourceSpec
from tidegate.connectors.postgres.source import PostgresChanges, build
from tidegate.core.options import Bag
from tidegate.core.schema import Column
from tidegate.errors import Error
from tidegate.formats.events import SCHEMA

START = 1_700_000_000_000_000


class Log:
    """An insert log in memory. Positions are stored as JSON, as they are on disk."""

    def __init__(self) -> None:
        self.entries: list[tuple[list[Rows], str, list[RejectedRow]]] = []
        self.stopped = threading.Event()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    @property
    def position(self) -> Any:
        return json.loads(self.entries[-1][1]) if self.entries else None

    def append(self, rows: Sequence[Rows], position: Any, rejected: Sequence[RejectedRow] = ()) -> None:
        self.before()
        for relation, table, weight in rows:
            table.validate(full=True)
            if relation == BUS:
                assert table.schema == SCHEMA and weight == 1
        self.entries.append((list(rows), json.dumps(position), list(rejected)))
        self.after()

    def events(self) -> list[dict[str, Any]]:
        """The events on the bus, with payload and transaction parsed."""
        bus_rows = [
            row for rows, _, _ in self.entries for name, table, _ in rows if name == BUS for row in table.to_pylist()
        ]
        return [
            row | {name: row[name] and json.loads(row[name]) for name in ("payload", "transaction")} for row in bus_rows
        ]

    def payloads(self) -> list[Any]:
        return [event["payload"] for event in self.events()]

    def transactions(self) -> list[set[int]]:
        """The transactions of the events of each entry."""
        tables = [[table for name, table, _ in rows if name == BUS] for rows, _, _ in self.entries]
        texts = [[text for table in part for text in table.column("transaction").to_pylist()] for part in tables]
        return [{json.loads(text)["xid"] for text in part if text} for part in texts]

    def table(self, relation: str = "customers", key: Sequence[str] = ("id",)) -> list[tuple[Any, ...]]:
        """The content of a table after all entries, computed as its kernel does: the last row of a key stays, weight 0
        empties the table."""
        content: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for rows, _, _ in self.entries:
            for name, table, weight in rows:
                if name != relation:
                    continue
                if weight == 0:
                    assert not table.num_rows
                    content.clear()
                for row in table.to_pylist():
                    each = row.pop("__w", weight)
                    at = tuple(row[part] for part in key)
                    assert None not in at or each > 0
                    content.pop(at, None)
                    if each > 0:
                        content[at] = tuple(row.values())
        return sorted(content.values(), key=repr)

    def rejected(self) -> list[RejectedRow]:
        return [one for _, _, rejected in self.entries for one in rejected]


def events_of(url: str, relation: str = "shop", **options: str) -> PostgresChanges:
    return _build(SourceSpec("POSTGRES", relation, (), {"url": url, **options}))


def table_of(url: str, columns: str, relation: str = "customers", key: str = "id", **options: str) -> PostgresChanges:
    """A table with columns such as `id bigint, price decimal(10,2) not null`; a comma inside a type must not have a
    blank after it."""
    schema = []
    for declaration in columns.split(", "):
        name, _, type_ = declaration.partition(" ")
        schema.append(Column(name, type_.removesuffix(" not null"), not type_.endswith(" not null")))
    all_options = {"url": url, **options}
    return _build(SourceSpec("POSTGRES", relation, tuple(schema), all_options, None, tuple(key.split(", "))))


def _build(spec: SourceSpec) -> PostgresChanges:
    bag = Bag("POSTGRES", [(name, value, None) for name, value in spec.options.items()])
    source = build(spec, bag)
    bag.finish()
    assert isinstance(source, PostgresChanges)
    return source


def capture_of(folder: Path, *sources: PostgresChanges, now: Callable[[], int] = lambda: START) -> Capture:
    assert len({source.session for source in sources}) == 1
    return sources[0].capture(sources, CaptureContext("owner", folder, now))


def catch_up(folder: Path, log: Log, *sources: PostgresChanges) -> Log:
    """Runs a capture until it has caught up, and returns the log."""
    log.stopped.clear()
    capture_of(folder, *sources).catch_up(log)
    return log


@contextlib.contextmanager
def following(capture: Capture, log: Log) -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Runs a capture on its own thread and yields a function that waits until a condition holds. An error of the
    capture is raised."""
    log.stopped.clear()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            capture.follow(log)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def until(holds: Callable[[], bool]) -> None:
        wait_until(lambda: bool(failures) or holds(), "what was waited for", 30)
        if failures:
            raise failures[0]

    try:
        yield until
    finally:
        log.stopped.set()
        thread.join(30)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def error_of(act: Callable[[], object]) -> str:
    with pytest.raises(Error) as caught:
        act()
    assert PASSWORD not in str(caught.value)
    return str(caught.value)
