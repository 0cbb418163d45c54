"""One window of a view: which changed rows pass its WHERE, and which of them its windows accept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidegate.core.types import Type
from tidegate.core.types import from_arrow as type_of
from tidegate.sql import render
from tidegate.testing.oracle.amounts import TIMES, Number, Unknown, number, value
from tidegate.testing.oracle.bags import Bag, Change, Row, consolidate, from_arrow, row_identity, to_arrow
from tidegate.testing.oracle.batch import Job
from tidegate.testing.oracle.inference import BEFORE, Watermark
from tidegate.testing.oracle.shapes import END, START, Windowed
from tidegate.testing.oracle.windows import Entry, Extent, SessionRows, Window, closed
from tidegate.testing.spec.compare import canonical

ID, PASSES = "__id", "__passes"


@dataclass(frozen=True)
class Candidate:
    """A change of a row that passed the WHERE, with its windows and the values that its session is partitioned by."""

    row: Row
    weight: int
    time: int
    windows: tuple[Extent, ...]
    key: tuple[Any, ...] = ()


class WindowRows:
    """The rows that a window accepted, with their windows. `late` are the rows that no window accepted."""

    def __init__(self, window: Window, kinds: tuple[Type, ...], lateness: int) -> None:
        self.window, self._kinds, self._lateness = window, kinds, lateness
        self.late: list[Row] = []
        self._fixed: dict[Extent, Bag] = {}
        self._sessions: SessionRows[Row] = SessionRows(window, lateness)

    def step(self, candidates: Iterable[Candidate], watermark: Number | None) -> bool:
        """Apply the changes of a micro-batch; `watermark` is its value before. False if none was accepted."""
        if self.window.kind == "session":
            return self._step_sessions(candidates, watermark)
        changed = False
        for each in candidates:
            accepting = [extent for extent in each.windows if not closed(extent[1], watermark, self._lateness)]
            for extent in accepting:
                changed |= self._fixed.setdefault(extent, Bag(self._kinds)).add(each.row, each.weight)
            if not accepting:
                self.late += [each.row] * abs(each.weight)
        return changed

    def rows(self) -> list[tuple[Row, Extent]]:
        """Every row once for each of its windows."""
        fixed = [(row, extent) for extent, bag in self._fixed.items() for row in bag.rows()]
        sessions = [*self._sessions.closed, *self._sessions.open()]
        return fixed + [(entry.row, (each.start, each.end)) for each in sessions for entry in each.entries]

    def _step_sessions(self, candidates: Iterable[Candidate], watermark: Number | None) -> bool:
        changes = [
            (Entry(each.key, each.time, row_identity(each.row, self._kinds), each.row), 1 if each.weight > 0 else -1)
            for each in candidates
            for _ in range(abs(each.weight))
        ]
        late = self._sessions.step(changes, watermark)
        self.late += [entry.row for entry, _ in late]
        return len(late) < len(changes)


class Windowing:
    """A window over a source (an input or a view). In each micro-batch: `begin`, `receive` its answer, `accept`."""

    def __init__(self, windowed: Windowed, source: Any, lateness: int) -> None:
        self.windowed, self.source, self._lateness = windowed, source, lateness
        self._accepted: WindowRows | None = None
        self._candidates: list[tuple[Change, int, Extent | None]] = []
        self._answers: dict[int, tuple[Any, ...]] | None = None
        self._table: pa.Table | None = None
        self._began_with_rows = bool(source.rows())

    @property
    def time(self) -> str:
        """The time column; without one in the query, the only column of the relation that has a watermark."""
        if self.windowed.time is not None:
            return self.windowed.time.lower()
        names = list(self.source.watermarks())
        if len(names) != 1:
            raise Unknown(f"{self.windowed.relation} has no time column of its own")
        return str(names[0])

    @property
    def watermark(self) -> Watermark | None:
        watermark = self.source.watermarks().get(self.time)
        assert watermark is None or isinstance(watermark, Watermark)
        return watermark

    def begin(self) -> Job | None:
        """The query over the changed rows: which pass the WHERE, and what are their session keys? None if neither is
        needed."""
        self._answers = None
        self._candidates = [each for change in self._changes() for each in self._row_per_window(change)]
        where, keys = self.windowed.where, self.windowed.keys if self.windowed.window.kind == "session" else ()
        if not self._candidates or (where is None and not keys):
            return None
        items = [f"{ID}", f"({render(where)}) AS {PASSES}" if where is not None else f"true AS {PASSES}"]
        items += [f"{render(key)} AS __key{index}" for index, key in enumerate(keys)]
        name = f"{self.windowed.table}_new"
        return Job(f"SELECT {', '.join(items)} FROM {name} AS {self.windowed.alias}", {name: self._candidate_table()})

    def receive(self, answer: pa.Table) -> None:
        """Store the answer of the query that `begin` returned."""
        kinds = [type_of(field.type) for field in answer.schema]
        self._answers = {}
        for number_, passes, *key in from_arrow(answer):
            self._answers[number_] = (passes, *map(canonical, key, kinds[2:]))

    def accept(self) -> bool:
        """Apply the changes that are not late. False if nothing changed."""
        if self._accepted is None:
            self._accepted = WindowRows(self.windowed.window, self.source.kinds, self._lateness)
            self._table = None
        watermark = self.watermark
        # Without GROUP BY no row is late, nor are rows that existed before the view.
        may_reject = watermark is not None and self.windowed.grouped and not self._began_with_rows
        limit = watermark.at(BEFORE, 0) if watermark is not None and may_reject else None
        changed = self._accepted.step(self._passing(), limit)
        self._began_with_rows = False
        self._table = None if changed else self._table
        return changed

    def take_late(self) -> list[Row]:
        """The late rows since the last call."""
        if self._accepted is None:
            return []
        late, self._accepted.late = self._accepted.late, []
        return late

    def table(self) -> pa.Table:
        """The accepted rows with their windows, as the batch query reads them."""
        if self._table is None:
            accepted = self._accepted.rows() if self._accepted is not None else []
            columns = self._own_columns()
            rows = [(*(row[index] for index in columns), *self._edges(extent)) for row, extent in accepted]
            self._table = to_arrow(rows, self._schema(columns))
        return self._table

    def _changes(self) -> list[Change]:
        if self._accepted is None:
            return consolidate(((row, 1) for row in self.source.rows()), self.source.kinds)
        return list(self.source.changes)

    def _row_per_window(self, change: Change) -> list[tuple[Change, int, Extent | None]]:
        """The change once for each window of the row, or once for sessions. A row without a time is in no window."""
        index = self._time_index()
        if self.source.kinds[index].name not in TIMES:
            raise Unknown("the time of its window is no time")
        time = number(change[0][index], self.source.kinds[index])
        if time is None:
            return []
        if self.windowed.window.kind == "session":
            return [(change, int(time), None)]
        return [(change, int(time), extent) for extent in self.windowed.window.extents(int(time))]

    def _passing(self) -> list[Candidate]:
        """The changes whose rows pass the WHERE, each with all its windows."""
        passing: dict[int, Candidate] = {}
        for index, (change, time, extent) in enumerate(self._candidates):
            passes, *key = self._answers[index] if self._answers is not None else (True,)
            if not passes:
                continue
            before = passing.get(id(change))
            windows = (*(before.windows if before else ()), *([extent] if extent else []))
            passing[id(change)] = Candidate(*change, time, windows, tuple(key))
        return list(passing.values())

    def _candidate_table(self) -> pa.Table:
        columns = self._own_columns()
        rows = [
            (*(row[column] for column in columns), *(self._edges(extent) if extent else (None, None)), index)
            for index, ((row, _), _, extent) in enumerate(self._candidates)
        ]
        session = self.windowed.window.kind == "session"
        if session and self.windowed.where is not None and _names_edges(self.windowed.where):
            raise Unknown("its WHERE reads the edges of sessions")
        return to_arrow(rows, self._schema(columns).append(pa.field(ID, pa.int64())))

    def _schema(self, columns: list[int]) -> pa.Schema:
        kind = self.source.schema.field(self._time_index()).type
        edge = pa.timestamp("us", "UTC") if pa.types.is_date(kind) else kind
        fields = [self.source.schema.field(index) for index in columns]
        return pa.schema([*fields, pa.field(START, edge), pa.field(END, edge)])

    def _edges(self, extent: Extent) -> tuple[Any, Any]:
        kind = type_of(self._schema([]).field(0).type)
        return value(extent[0], kind), value(extent[1], kind)

    def _own_columns(self) -> list[int]:
        """The columns of the source that window_start and window_end do not hide."""
        return [index for index, name in enumerate(self.source.names) if name.lower() not in (START, END)]

    def _time_index(self) -> int:
        names = [name.lower() for name in self.source.names]
        if self.time not in names:
            raise Unknown(f"{self.windowed.relation} has no column {self.time}")
        return names.index(self.time)


def _names_edges(tree: exp.Expr) -> bool:
    return any(node.name.lower() in (START, END) for node in tree.find_all(exp.Column))
