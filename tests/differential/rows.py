"""Projections, rows with their windows, and unions: what they accept, and what they contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.differential.held import Origin
from tests.differential.inputs import Late, Relation, Row, Rows
from tests.differential.marks import Mark, least
from tests.differential.pipeline import WAITING, Select, Union, View
from tests.differential.queries import Entry, LateRows, marks_of, origins_of, take_windows, window_marks
from tests.differential.windows import Span


class Selected:
    """SELECT ... WHERE, of the rows or of the rows with their windows."""

    def __init__(self, view: View, source: Relation, source_key: tuple[int, ...] | None) -> None:
        query = view.query
        assert isinstance(query, Select)
        self._view, self._query, self._source = view, query, source
        self.columns = tuple(name for name, _ in query.items) + (("ws", "we") if query.window else ())
        self.key = self._key(source_key)
        self.origins = origins_of(query.items, source, query.window)
        self._accepted: Counter[tuple[Row, Span | None]] = Counter()

    def _key(self, source_key: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The key of the source, if all of it is kept; with the window where a row can be in several."""
        items = self._query.items
        kept = {item.column: place for place, (_, item) in enumerate(items) if item.does == "column"}
        names = [self._source.columns[place] for place in source_key] if source_key is not None else None
        if names is None or any(name not in kept for name in names):
            return None
        several = self._query.window is not None and self._query.window.kind != "TUMBLE"
        edges = (len(items), len(items) + 1) if several else ()
        return (*(kept[name] for name in names), *edges)

    def accept(self, deltas: Mapping[str, Rows], clock: int) -> LateRows:
        late: list[Late] = []
        for row, weight in deltas.get(self._source.name, Counter()).items():
            record = self._source.record(row)
            if not all(condition.now or condition.holds(record, clock) for condition in self._query.where):
                continue
            if self._query.window is not None:
                marks = self.closing("before") if self._waits() else {"we": None}
                if not take_windows(self._accepted, row, weight, record, self._query.window, marks):
                    late.append((row, weight))
            elif self._waits() and self._entry(row, None).closed(self.closing("before")):
                late.append((row, weight))
            else:
                self._accepted[row, None] += weight
        return {self._source.name: late}

    def entries(self, clock: int) -> Counter[Entry]:
        found: Counter[Entry] = Counter()
        now = [condition for condition in self._query.where if condition.now]
        for (row, span), weight in self._accepted.items():
            if weight and all(condition.holds(self._source.record(row), clock) for condition in now):
                found[self._entry(row, span)] += weight
        return found

    def closing(self, which: str, lag: int = 0) -> Mapping[str, Mark]:
        if self._query.window is not None:
            return {"we": getattr(self._source, which).of(self._query.window.time, lag)}
        return self._plain_marks(which, lag)

    def marks(self, which: str, lag: int = 0) -> dict[str, Mark]:
        marks = self._plain_marks(which, lag + self._view.allowed)
        if self._query.window is not None:
            marks |= window_marks(getattr(self._source, which), self._query.window, lag + self._view.allowed)
        return marks

    def _plain_marks(self, which: str, lag: int) -> dict[str, Mark]:
        if any(condition.now for condition in self._query.where):
            return {}
        return marks_of(self._query.items, getattr(self._source, which), lag)

    def _waits(self) -> bool:
        return self._view.emit in WAITING

    def _entry(self, row: Row, span: Span | None) -> Entry:
        record = self._source.record(row)
        values = {name: expression.value(record) for name, expression in self._query.items}
        if span is not None:
            return Entry((), (*values.values(), *span), (("we", span[1]),))
        ends = tuple((name, values[name]) for name in self._plain_marks("now", 0))
        key = tuple(values.values())
        return Entry(key if self.key is None else tuple(key[place] for place in self.key), key, ends, strict=True)


class United:
    """UNION ALL."""

    def __init__(self, query: Union, sources: list[Relation]) -> None:
        self.columns, self.key = query.columns, None
        self.origins: dict[str, Origin] = {}
        self._sources = sources
        self._rows: Rows = Counter()

    def accept(self, deltas: Mapping[str, Rows], clock: int) -> LateRows:
        for source in self._sources:
            for row, weight in deltas.get(source.name, Counter()).items():
                record = source.record(row)
                self._rows[tuple(record[column] for column in self.columns)] += weight
        return {}

    def entries(self, clock: int) -> Counter[Entry]:
        return Counter({Entry(row, row): weight for row, weight in self._rows.items() if weight})

    def closing(self, which: str, lag: int = 0) -> Mapping[str, Mark]:
        return self.marks(which, lag)

    def marks(self, which: str, lag: int = 0) -> dict[str, Mark]:
        found = {column: least(getattr(one, which).of(column, lag) for one in self._sources) for column in self.columns}
        return {column: mark for column, mark in found.items() if mark is not None}
