"""Groups: of fixed windows, of sessions, of expressions, or of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.differential.aggregates import aggregate
from tests.differential.inputs import Late, Relation, Row, Rows
from tests.differential.marks import Mark, has_reached, is_below
from tests.differential.pipeline import WAITING, Group, View
from tests.differential.queries import Entry, LateRows, marks_of, origins_of, take_windows, window_marks
from tests.differential.windows import Span, sessions_of


class Grouped:
    """GROUP BY of fixed windows, of sessions, of expressions, or of nothing."""

    def __init__(self, view: View, source: Relation) -> None:
        query = view.query
        assert isinstance(query, Group)
        self._view, self._query, self._source = view, query, source
        self.columns = (*(name for name, _ in query.keys), *query.edges, *(one.name for one in query.aggregates))
        self.origins = origins_of(query.keys, source, query.window)
        self._accepted: Counter[tuple[Row, Span | None]] = Counter()
        window = query.window
        self._session = window is not None and window.kind == "SESSION"
        identity = None if window is None else "ws" if self._session or "ws" in query.edges else "we"
        complete = identity is None or identity in query.edges
        keys = len(query.keys)
        edge = () if identity is None else (keys + query.edges.index(identity),) if complete else ()
        if window is not None and window.kind == "CUMULATE":
            edge = (keys, keys + 1)
        self.key = (*range(keys), *edge) if complete else None
        self.key_unknown = not complete

    def accept(self, deltas: Mapping[str, Rows], clock: int) -> LateRows:
        late: list[Late] = []
        passed: Rows = Counter()
        for row, weight in deltas.get(self._source.name, Counter()).items():
            if all(condition.holds(self._source.record(row), clock) for condition in self._query.where):
                passed[row] = weight
        if self._session:
            return {self._source.name: self._accept_sessions(passed)}
        for row, weight in passed.items():
            record = self._source.record(row)
            if self._query.window is not None:
                if not take_windows(
                    self._accepted, row, weight, record, self._query.window, self.closing("before", self._view.allowed)
                ):
                    late.append((row, weight))
            elif self._view.emit in WAITING and self._group_ends(record) and self._is_late(record):
                late.append((row, weight))
            else:
                self._accepted[row, None] += weight
        return {self._source.name: late}

    def _is_late(self, record: Mapping[str, Any]) -> bool:
        before = self.closing("before")
        return all(is_below(value, before.get(name)) for name, value in self._group_ends(record))

    def _accept_sessions(self, delta: Rows) -> list[Late]:
        """A row is late if it would reopen a session that is closed for good, or begin one that is, or is two gaps
        behind and not inside of an open one."""
        assert self._query.window is not None
        [gap] = self._query.window.sizes
        time = self._query.window.time
        mark = self._source.before.of(time, self._view.allowed)
        late: list[Late] = []
        done = self._closed_times(gap, mark)
        fresh: dict[tuple[Any, ...], dict[Row, int]] = {}
        for row, weight in delta.items():
            record = self._source.record(row)
            at = record[time]
            if not isinstance(at, int):
                continue
            group = self._group_key(record)
            closed = done.get(group, set())
            inside = any(run[0] <= at < run[-1] + gap for run in sessions_of(self._times(group), gap))
            stale = has_reached(mark, at + 2 * gap) and not inside
            if weight > 0 and not stale and not any(abs(at - other) < gap for other in closed):
                fresh.setdefault(group, {})[row] = at
            elif weight < 0 and at not in closed and self._accepted[row, None] + weight >= 0:
                self._accepted[row, None] += weight
            else:
                late.append((row, weight))
        for group, rows in fresh.items():
            known = self._times(group)
            for run in sessions_of([*{*known, *rows.values()}], gap):
                begun_late = has_reached(mark, run[-1] + gap)
                for row, at in rows.items():
                    if at in run and begun_late:
                        late.append((row, delta[row]))
                    elif at in run:
                        self._accepted[row, None] += delta[row]
        return late

    def _closed_times(self, gap: int, mark: Mark) -> dict[tuple[Any, ...], set[int]]:
        """The times of rows in sessions that are closed for good, by group."""
        closed: dict[tuple[Any, ...], set[int]] = {}
        for group in {
            self._group_key(self._source.record(row)) for (row, _), weight in self._accepted.items() if weight
        }:
            for run in sessions_of(self._times(group), gap):
                if has_reached(mark, run[-1] + gap):
                    closed.setdefault(group, set()).update(run)
        return closed

    def _times(self, group: tuple[Any, ...]) -> list[int]:
        assert self._query.window is not None
        records = [self._source.record(row) for (row, _), weight in self._accepted.items() if weight]
        return sorted({record[self._query.window.time] for record in records if self._group_key(record) == group})  # type: ignore[misc]

    def entries(self, clock: int) -> Counter[Entry]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {} if self._query.keys or self._query.window else {(): []}
        spans: dict[tuple[Any, ...], Span | None] = {}
        for (row, span), weight in self._accepted.items():
            record = self._source.record(row)
            key = self._group_key(record)
            if weight:
                if self._session:
                    span = self._session_of(key, record)
                whole = (*key, span) if span is not None else key
                spans[whole] = span
                groups.setdefault(whole, []).extend([record] * weight)
        found: Counter[Entry] = Counter()
        for whole, records in groups.items():
            if self._query.having is None or len(records) > self._query.having:
                found[self._entry(whole, spans.get(whole), records, clock)] += 1
        return found

    def _session_of(self, group: tuple[Any, ...], record: Mapping[str, Any]) -> Span:
        assert self._query.window is not None
        [gap] = self._query.window.sizes
        for run in sessions_of(self._times(group), gap):
            if record[self._query.window.time] in run:
                return run[0], run[-1] + gap
        raise AssertionError("every accepted row is in a session")

    def _entry(self, whole: tuple[Any, ...], span: Span | None, records: list[dict[str, Any]], clock: int) -> Entry:
        keys = whole[:-1] if span is not None else whole
        edges = [span[("ws", "we").index(edge)] for edge in self._query.edges] if span is not None else []
        row = (*keys, *edges, *(aggregate(call, records, clock) for call in self._query.aggregates))
        if span is None:
            ends = self._group_ends(records[0]) if records else ()
            return Entry(keys, row, ends, strict=True)
        identity = span[0] if self._session else span
        return Entry((*keys, identity), row, (("we", span[1]),))

    def _group_ends(self, record: Mapping[str, Any]) -> tuple[tuple[str, int | None], ...]:
        marked = self.closing("now")
        return tuple((name, item.value(record)) for name, item in self._query.keys if name in marked)

    def _group_key(self, record: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(expression.value(record) for _, expression in self._query.keys)

    def closing(self, which: str, lag: int = 0) -> Mapping[str, Mark]:
        source = getattr(self._source, which)
        if self._query.window is not None:
            return {"we": source.of(self._query.window.time, lag)}
        return marks_of(self._query.keys, source, lag)

    def marks(self, which: str, lag: int = 0) -> dict[str, Mark]:
        source, lag = getattr(self._source, which), lag + self._view.allowed
        found = marks_of(self._query.keys, source, lag)
        if self._query.window is not None:
            edges = window_marks(source, self._query.window, lag)
            found |= {name: mark for name, mark in edges.items() if name in self._query.edges}
        return found
