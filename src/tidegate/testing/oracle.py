"""The first law as a check: a view's content equals its SELECT, run by Spark as a batch over the accepted rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidegate.catalog.schema import Schema
from tidegate.spark.types import arrow_schema
from tidegate.sql.statements import Query
from tidegate.testing.inputs import Given, Input
from tidegate.testing.oracle_query import batch_sql, reads, uses_arrival
from tidegate.testing.spec.compare import Comparable, comparable
from tidegate.testing.spec.types import Type, of_arrow
from tidegate.testing.spec.values import pairs

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class View:
    """A view as the oracle knows it. `starts`: how many rows each source had when the view began."""

    name: str
    query: Query
    materialized: bool
    reads: tuple[str, ...]
    starts: dict[str, int] = field(default_factory=dict)
    stale: bool = True


@dataclass(frozen=True)
class Answer:
    """Rows of a batch query, comparable, with the types of their columns."""

    rows: tuple[Comparable, ...]
    kinds: tuple[Type, ...]
    values: tuple[tuple[Any, ...], ...]


class Oracle:
    """Holds every input's accepted rows and every view's SELECT; answers what a view must contain now."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark.newSession()
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}
        self._versions: dict[str, int] = {}
        self._frames: dict[tuple[str, int, int], Any] = {}

    def add_input(self, given: Input) -> None:
        self.inputs[given.name.lower()] = given
        self._versions.setdefault(given.name.lower(), 0)

    def add_view(self, name: str, query: Query, materialized: bool) -> None:
        view = View(name.lower(), query, materialized, reads(query))
        self.views[view.name] = view
        view.starts = {source: len(self.inputs[source].rows) for source in self._sources(view.reads)}

    def drop(self, name: str) -> None:
        """Forgets a relation and all that read it."""
        for view in [one.name for one in self.views.values() if name.lower() in one.reads]:
            self.drop(view)
        self.views.pop(name.lower(), None)
        self.inputs.pop(name.lower(), None)

    def give(self, relation: str, given: Iterable[Given]) -> None:
        self.inputs[relation.lower()].give(given)

    def step(self) -> None:
        """The rows given so far are accepted; the views that they can reach are stale."""
        changed = {name for name, relation in self.inputs.items() if relation.step()}
        for name in changed:
            self._versions[name] += 1
        for view in self.views.values():
            if self._inputs_of(view) & changed:
                view.stale = True

    def unanswerable(self, name: str) -> str | None:
        """Why a view's content cannot be told by a batch query, or None if it can."""
        view = self.views[name.lower()]
        unknown = [one for one in view.reads if one not in self.views and one not in self.inputs]
        if unknown or not view.reads:
            return f"it reads {', '.join(unknown) or 'nothing'}"
        if uses_arrival(view.query) and not all(self._keeps_order(one) for one in view.reads):
            return "it asks for the first or last row of an input whose order of arrival is not kept"
        return next((why for one in view.reads if one in self.views and (why := self.unanswerable(one))), None)

    def answer(self, name: str) -> Answer:
        """What the view must contain now."""
        return self._collect(self._frame(self.views[name.lower()]))

    def select(self, sql: str, names: Sequence[str]) -> Answer:
        """The answer of an ad-hoc query over relations as they are now."""
        self._register(names, {})
        return self._collect(self._spark.sql(sql))

    def _collect(self, frame: Any) -> Answer:
        table: pa.Table = frame.toArrow()
        kinds = tuple(of_arrow(one.type) for one in table.schema)
        columns = [column.to_pylist() for column in table.columns]
        rows = tuple(zip(*columns, strict=True)) if columns else ()
        return Answer(tuple(comparable(row, kinds) for row in rows), kinds, rows)

    def _frame(self, view: View) -> Any:
        return self._run(view, view.starts)

    def _run(self, view: View, starts: dict[str, int]) -> Any:
        sql = batch_sql(view.query, self._columns)
        self._register(view.reads, starts)
        return self._spark.sql(sql)

    def _register(self, names: Sequence[str], starts: dict[str, int]) -> None:
        """Gives the relations their content under their names. A view that is not materialized is read with the
        starts of whoever reads it; a materialized one has its own."""
        frames = {}
        for name in names:
            if name in self.inputs:
                frames[name] = self._rows(self.inputs[name], starts.get(name, 0))
            elif self.views[name].materialized:
                frames[name] = self._frame(self.views[name])
            else:
                frames[name] = self._run(self.views[name], starts)
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)

    def _rows(self, relation: Input, start: int) -> Any:
        place = (relation.name, start, self._versions[relation.name.lower()])
        if place not in self._frames:
            table = to_arrow(relation.rows[start:], relation.columns)
            self._frames = {one: frame for one, frame in self._frames.items() if one[:2] != place[:2]}
            self._frames[place] = self._spark.createDataFrame(table).coalesce(1)
        return self._frames[place]

    def _columns(self, name: str) -> tuple[str, ...] | None:
        if name in self.inputs:
            return tuple(column.name for column in self.inputs[name].columns)
        return tuple(self._frame(self.views[name]).columns) if name in self.views else None

    def _keeps_order(self, name: str) -> bool:
        return name in self.inputs and self.inputs[name].source

    def _sources(self, names: Iterable[str]) -> set[str]:
        """The sources that are read directly or through views that are not materialized."""
        found: set[str] = set()
        for name in names:
            if name in self.inputs and self.inputs[name].source:
                found.add(name)
            elif name in self.views and not self.views[name].materialized:
                found |= self._sources(self.views[name].reads)
        return found

    def _inputs_of(self, view: View) -> set[str]:
        found: set[str] = set()
        for name in view.reads:
            found |= self._inputs_of(self.views[name]) if name in self.views else {name}
        return found


def to_arrow(rows: Sequence[Sequence[Any]], columns: Schema) -> pa.Table:
    """Rows of Python values as an Arrow table with the columns' types."""
    schema = arrow_schema(columns)
    arrays = [
        pa.array([_arrow_value(row[place], kind.type) for row in rows], type=kind.type)
        for place, kind in enumerate(schema)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    return pairs(value) if value is not None and pa.types.is_map(kind) else value
