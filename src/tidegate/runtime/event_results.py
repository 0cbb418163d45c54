"""Results of views over the event bus return to it as events, exactly once, each with the number of its revision."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.bind.events.views import WINDOW_EDGES
from tidegate.catalog.bus import BUS, RESULTS
from tidegate.catalog.relation import Relation
from tidegate.core.columns import OP
from tidegate.core.render import json_cells, json_objects
from tidegate.core.schema import names
from tidegate.formats.events import SCHEMA
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.step_log import StepLog

MARK = "results"
KEPT_STEPS = 100_000
"""The number of steps for which revisions of results are stored."""


@dataclass(frozen=True)
class ReturningView:
    """A view whose results return. `key` identifies its groups, None if nothing does; `batch`: all groups of a window
    are one event."""

    view: Relation
    key: tuple[str, ...] | None
    batch: bool
    start_step: int


class Revisions:
    """How often each result was revised, in a SQLite database. A step that runs again reads the numbers from before
    it."""

    def __init__(self, path: Path) -> None:
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS revisions (view TEXT, key TEXT, number INTEGER, before INTEGER, step INTEGER,"
            " PRIMARY KEY (view, key)) WITHOUT ROWID"
        )

    def last_numbers(self, view: str, keys: Sequence[str], step: int) -> dict[str, int]:
        """The number of the last revision before a step, for those results that have one."""
        numbers = {}
        for start in range(0, len(keys), 500):
            chunk = keys[start : start + 500]
            placeholders = ",".join("?" * len(chunk))
            query = f"SELECT key, number, before, step FROM revisions WHERE view = ? AND key IN ({placeholders})"
            for key, number, before, at in self._base.execute(query, (view, *chunk)):
                last = before if at >= step else number
                if last is not None:
                    numbers[key] = last
        return numbers

    def keep(self, view: str, numbers: Mapping[str, tuple[int, int | None]], step: int) -> None:
        """Store the new numbers of results, each with the previous one."""
        with self._base:
            self._base.execute("BEGIN")
            self._base.executemany(
                "INSERT OR REPLACE INTO revisions VALUES (?, ?, ?, ?, ?)",
                [(view, key, number, before, step) for key, (number, before) in numbers.items()],
            )
            if step % 1000 == 0:
                self._base.execute("DELETE FROM revisions WHERE step < ?", (step - KEPT_STEPS,))

    def close(self) -> None:
        self._base.close()


class EventResults:
    """Appends the results of every step to the insert log, with their step as a mark."""

    def __init__(self, folder: Path, log: StepLog, inserts: InsertLog) -> None:
        self._path, self._log, self._inserts = folder / "revisions.sqlite", log, inserts
        self._revisions: Revisions | None = None
        self._lock = threading.Lock()
        self.emitted: Counter[str] = Counter()

    def apply(self, views: Sequence[ReturningView]) -> bool:
        """Append the results that have not returned yet; True if there were any."""
        with self._lock:
            last, last_steps = self._log.last(), dict(self._inserts.marks().get(MARK, {}))
            events: list[tuple[Any, ...]] = []
            for each in views:
                name = each.view.name
                after = max(last_steps.get(name, 0), each.start_step)
                for step, table in self._log.changes(RESULTS + name, after, last):
                    events += self._events(each, step, table)
                    last_steps[name] = step
            if not events:
                return False
            names = {each.view.name for each in views}
            marks = {name: step for name, step in last_steps.items() if name in names}
            self._inserts.append([(BUS, _rows(events), 1)], None, {MARK: marks})
            return True

    def close(self) -> None:
        if self._revisions is not None:
            self._revisions.close()
            self._revisions = None

    @property
    def revisions(self) -> Revisions:
        if self._revisions is None:
            self._revisions = Revisions(self._path)
        return self._revisions

    def _events(self, each: ReturningView, step: int, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        view = each.view.name
        self.emitted[view] += len(set(_windows(table)))
        payloads = self._batched(each, step, table) if each.batch else self._single(each, step, table)
        for number, payload in enumerate(payloads, start=1):
            yield (f"{view}-{step}-{number}", RESULTS + view, "VIEW_RESULT", payload, view, None, None)

    def _single(self, each: ReturningView, step: int, table: pa.Table) -> Iterator[str]:
        """One payload per group."""
        results = [result for result in _results(each, table) if result.op != "-U"]
        numbers = self._numbered(each, step, results, always=False)
        for result in results:
            yield _payload(result.fields, result.window, numbers.get(result.key, 0), result.op == "-D")

    def _batched(self, each: ReturningView, step: int, table: pa.Table) -> Iterator[str]:
        """One payload per window, with the groups that were added or changed."""
        windows: dict[str, list[_Result]] = {}
        for result in _results(each, table):
            if result.op != "-U":
                windows.setdefault(result.window or "", []).append(result)
        heads = [_Result(window, "+I", "", window or None) for window in sorted(windows)]
        numbers = self._numbered(each, step, heads, always=True)
        for head in heads:
            rows = [_marked(result.fields, result.op == "-D") for result in windows[head.key]]
            yield _payload(f'"rows":[{",".join(rows)}]', head.window, numbers.get(head.key, 0), False)

    def _numbered(self, each: ReturningView, step: int, results: Sequence[_Result], always: bool) -> dict[str, int]:
        """The revision number of each result: 0 for the first. Results that never change again are not stored."""
        if each.key is None:
            return {}
        view = each.view.name
        last_numbers = self.revisions.last_numbers(view, [result.key for result in results], step)
        numbers: dict[str, tuple[int, int | None]] = {}
        for result in results:
            before = last_numbers.get(result.key)
            first = 0 if result.op == "+I" else 1
            number = first if before is None else before + 1
            if always or number or before is not None:
                numbers[result.key] = (number, before)
        if numbers:
            self.revisions.keep(view, numbers, step)
        return {key: number for key, (number, _) in numbers.items()}


@dataclass(frozen=True)
class _Result:
    """A changed row of a view: the key of its group, its fields and its window as JSON."""

    key: str
    op: str
    fields: str
    window: str | None


def _results(each: ReturningView, table: pa.Table) -> list[_Result]:
    """The results in an order that is the same whenever the step runs."""
    visible = table.select(list(names(each.view.columns)))
    keys = json_objects(table.select(list(each.key))) if each.key else iter([""] * table.num_rows)
    rows = zip(table.column(OP).to_pylist(), json_objects(visible), keys, _windows(table), strict=True)
    results = [_Result(key, op, fields[1:-1], window) for op, fields, key, window in rows]
    return sorted(results, key=lambda result: (result.window or "", result.key, result.op != "-D", result.fields))


def _windows(table: pa.Table) -> list[str | None]:
    if WINDOW_EDGES[0] not in table.column_names:
        return [None] * table.num_rows
    starts, ends = (json_cells(table.column(edge)) for edge in WINDOW_EDGES)
    return [f'{{"start":{start},"end":{end}}}' for start, end in zip(starts, ends, strict=True)]


def _payload(fields: str, window: str | None, revision: int, deleted: bool) -> str:
    parts = [fields] if fields else []
    if window is not None:
        parts.append(f'"_window":{window}')
    parts.append(f'"_revision":{revision}')
    if deleted:
        parts.append('"_deleted":true')
    return "{" + ",".join(parts) + "}"


def _marked(fields: str, deleted: bool) -> str:
    return "{" + fields + ((',"_deleted":true' if fields else '"_deleted":true') if deleted else "") + "}"


def _rows(events: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*events, strict=True)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
