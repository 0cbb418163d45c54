"""A random case: relations, views and steps, as data that can be shrunk and printed as a spec file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.model.random_views.queries import Field, Query
from tests.model.random_views.windows import WindowSelect
from tidegate.core.types import parse_type
from tidegate.testing.oracle.inputs import DELETE, TOMBSTONE
from tidegate.testing.spec.values import show


@dataclass(frozen=True)
class Relation:
    """A source, a bag, or a keyed table (`key`: its first columns). `notes` are annotations of columns, by their
    index; `extra` is the rest of the declaration."""

    name: str
    fields: tuple[Field, ...]
    source: bool
    key: int = 0
    notes: tuple[tuple[int, str], ...] = ()
    extra: tuple[str, ...] = ()

    def sql(self) -> str:
        columns = [f"{field.name} {field.type.upper()}" for field in self.fields]
        for index, note in self.notes:
            columns[index] += f" {note}"
        columns += self.extra
        if self.key:
            columns.append(f"PRIMARY KEY ({', '.join(field.name for field in self.fields[: self.key])})")
        return f"CREATE {'SOURCE' if self.source else 'TABLE'} {self.name} ({', '.join(columns)});"


@dataclass(frozen=True)
class View:
    """`tail` is what stands after the query, clause by clause."""

    name: str
    query: Query | WindowSelect
    materialized: bool
    tail: tuple[str, ...] = ()

    def sql(self) -> str:
        kind = "MATERIALIZED VIEW" if self.materialized else "VIEW"
        return f"CREATE {kind} {self.name} AS {' '.join([self.query.sql(), *self.tail])};"


@dataclass(frozen=True)
class Change:
    """One row for one relation; or, alone in its step and for none, a move of the clock or the end of all inputs."""

    relation: str
    action: str
    row: tuple[Any, ...]


Step = tuple[Change, ...]
CLOCK, END = "clock", "end"


@dataclass(frozen=True)
class Case:
    """Everything that is needed to run it again. `late` views are created after the first step."""

    seed: int
    relations: tuple[Relation, ...]
    views: tuple[View, ...]
    steps: tuple[Step, ...]
    late: frozenset[str] = frozenset()

    def with_views(self, names: set[str]) -> Case:
        """Only these views and those that they read, and only the relations that are left to read."""
        needed = set(names)
        for view in reversed(self.views):
            if view.name in needed:
                needed |= view.query.reads()
        relations = tuple(relation for relation in self.relations if relation.name in needed)
        names_left = {"", *(relation.name for relation in relations)}
        steps = tuple(tuple(change for change in step if change.relation in names_left) for step in self.steps)
        views = tuple(view for view in self.views if view.name in needed)
        return replace(self, relations=relations, views=views, steps=steps)

    def spec(self) -> str:
        """The case as a spec file."""
        lines = [f"# Random views, seed {self.seed}.", "", "sql"]
        lines += [f"  {relation.sql()}" for relation in self.relations]
        lines += [f"  {view.sql()}" for view in self.views if view.name not in self.late]
        for number, step in enumerate(self.steps, start=1):
            lines += ["", *self._lines(number, step)]
            late = [f"  {view.sql()}" for view in self.views if view.name in self.late]
            lines += ["", "sql", *late] if number == 1 and late else []
        return "\n".join(lines) + "\n"

    def _lines(self, number: int, step: Step) -> list[str]:
        if step and step[0].action in (CLOCK, END):
            return [" ".join([step[0].action, *step[0].row])]
        return [f"step {number}", *self._rows(step)]

    def _rows(self, step: Step) -> list[str]:
        lines: list[str] = []
        for before, change in zip((None, *step), step, strict=False):
            if before is None or before.relation != change.relation:
                lines.append(f"> {change.relation}")
            lines.append(f"  {self._row(change)}")
        return lines

    def _row(self, change: Change) -> str:
        relation = next(one for one in self.relations if one.name == change.relation)
        kinds = [parse_type(field.type) for field in relation.fields]
        cells = " | ".join(show(value, kind) for value, kind in zip(change.row, kinds, strict=False))
        sign = "- " if change.action == DELETE else ""
        return f"{sign}{cells}{' !' if change.action == TOMBSTONE else ''}"
