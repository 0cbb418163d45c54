"""One window of a view at work: asks about the rows that came, and takes those that are not late."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidegate.core.types import from_arrow as type_of
from tidegate.sql import render
from tidegate.testing.bags import Change, Row, consolidated
from tidegate.testing.batch import Job
from tidegate.testing.rows import of_arrow, to_arrow
from tidegate.testing.spec.compare import canonical
from tidegate.testing.time.acceptance import Candidate, Taken
from tidegate.testing.time.amounts import TIMES, Unknown, number, value
from tidegate.testing.time.lines import BEFORE, Line
from tidegate.testing.time.shapes import END, START, Windowed
from tidegate.testing.time.windows import Extent

ID, PASSES = "__id", "__passes"


class Windowing:
    """A window over a source (an input or a view)."""

    def __init__(self, windowed: Windowed, source: Any, lateness: int) -> None:
        self.windowed, self.source, self._lateness = windowed, source, lateness
        self._taken: Taken | None = None
        self._asked: list[tuple[Change, int, Extent | None]] = []
        self._answers: dict[int, tuple[Any, ...]] | None = None
        self._table: pa.Table | None = None
        self._began_with = bool(source.rows())

    @property
    def time(self) -> str:
        """The time column: the relation's own where none is said."""
        if self.windowed.time is not None:
            return self.windowed.time.lower()
        found = list(self.source.lines())
        if len(found) != 1:
            raise Unknown(f"{self.windowed.relation} has no time column of its own")
        return str(found[0])

    @property
    def line(self) -> Line | None:
        found = self.source.lines().get(self.time)
        assert found is None or isinstance(found, Line)
        return found

    def begin(self) -> Job | None:
        """The question about the rows that came: which pass the WHERE, and what their sessions are per."""
        self._answers = None
        self._asked = [asked for change in self._changes() for asked in self._questions(change)]
        where, keys = self.windowed.where, self.windowed.keys if self.windowed.window.kind == "session" else ()
        if not self._asked or (where is None and not keys):
            return None
        items = [f"{ID}", f"({render(where)}) AS {PASSES}" if where is not None else f"true AS {PASSES}"]
        items += [f"{render(key)} AS __key{place}" for place, key in enumerate(keys)]
        name = f"{self.windowed.table}_new"
        return Job(f"SELECT {', '.join(items)} FROM {name} AS {self.windowed.alias}", {name: self._questions_table()})

    def told(self, answer: pa.Table) -> None:
        kinds = [type_of(field.type) for field in answer.schema]
        self._answers = {}
        for place, passes, *key in of_arrow(answer):
            self._answers[place] = (passes, *map(canonical, key, kinds[2:]))

    def take(self) -> bool:
        """Takes what came, but for what is late. Whether anything changed."""
        if self._taken is None:
            self._taken = Taken(self.windowed.window, self.source.kinds, self.windowed.grouped, self._lateness)
            self._table = None
        found = self.line
        # What was there before the view is never late.
        frontier = found.at(BEFORE, 0) if found is not None and not self._began_with else None
        changed = self._taken.step(self._candidates(), frontier)
        self._began_with = False
        self._table = None if changed else self._table
        return changed

    def late(self) -> list[Row]:
        """The late rows since this was asked last."""
        found = self._taken.late if self._taken is not None else []
        if self._taken is not None:
            self._taken.late = []
        return found

    def table(self) -> pa.Table:
        """The rows with their windows, as the batch query reads them."""
        if self._table is None:
            taken = self._taken.rows() if self._taken is not None else []
            kept = self._kept()
            rows = [(*(row[place] for place in kept), *self._edges(extent)) for row, extent in taken]
            self._table = to_arrow(rows, self._schema(kept))
        return self._table

    def _changes(self) -> list[Change]:
        if self._taken is None:
            return consolidated(((row, 1) for row in self.source.rows()), self.source.kinds)
        return list(self.source.changes)

    def _questions(self, change: Change) -> list[tuple[Change, int, Extent | None]]:
        """One for each window of the row; of sessions just one. A row without a time is in no window."""
        place = self._time_place()
        if self.source.kinds[place].name not in TIMES:
            raise Unknown("the time of its window is no time")
        moment = number(change[0][place], self.source.kinds[place])
        if moment is None:
            return []
        if self.windowed.window.kind == "session":
            return [(change, int(moment), None)]
        return [(change, int(moment), extent) for extent in self.windowed.window.covering(int(moment))]

    def _candidates(self) -> list[Candidate]:
        """The changes whose rows pass the WHERE, each with all its windows."""
        found: dict[int, Candidate] = {}
        for place, (change, time, extent) in enumerate(self._asked):
            passes, *key = self._answers[place] if self._answers is not None else (True,)
            if not passes:
                continue
            before = found.get(id(change))
            windows = (*(before.windows if before else ()), *([extent] if extent else []))
            found[id(change)] = Candidate(*change, time, windows, tuple(key))
        return list(found.values())

    def _questions_table(self) -> pa.Table:
        kept = self._kept()
        rows = [
            (*(row[one] for one in kept), *(self._edges(extent) if extent else (None, None)), place)
            for place, ((row, _), _, extent) in enumerate(self._asked)
        ]
        session = self.windowed.window.kind == "session"
        if session and self.windowed.where is not None and _names_edges(self.windowed.where):
            raise Unknown("its WHERE speaks of the edges of sessions")
        return to_arrow(rows, self._schema(kept).append(pa.field(ID, pa.int64())))

    def _schema(self, kept: list[int]) -> pa.Schema:
        kind = self.source.schema.field(self._time_place()).type
        edge = pa.timestamp("us", "UTC") if pa.types.is_date(kind) else kind
        fields = [self.source.schema.field(place) for place in kept]
        return pa.schema([*fields, pa.field(START, edge), pa.field(END, edge)])

    def _edges(self, extent: Extent) -> tuple[Any, Any]:
        kind = type_of(self._schema([]).field(0).type)
        return value(extent[0], kind), value(extent[1], kind)

    def _kept(self) -> list[int]:
        """The columns of the source that the window's own do not cover."""
        return [place for place, name in enumerate(self.source.names) if name.lower() not in (START, END)]

    def _time_place(self) -> int:
        names = [name.lower() for name in self.source.names]
        if self.time not in names:
            raise Unknown(f"{self.windowed.relation} has no column {self.time}")
        return names.index(self.time)


def _names_edges(tree: exp.Expr) -> bool:
    return any(node.name.lower() in (START, END) for node in tree.find_all(exp.Column))
