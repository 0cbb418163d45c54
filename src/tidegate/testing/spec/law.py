"""Checks after every step that each view contains what the oracle computes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.types import Type
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.spec import values
from tidegate.testing.spec.compare import Comparable, comparable, diff
from tidegate.testing.spec.consolidate import Emitted, consolidate
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.report import side_by_side

SLACK = 1e-9
SAMPLE = 8
"""Of more views than this, a sample is queried at the end: each costs a query."""
Broken = tuple[str, str, tuple[str, ...]]


@dataclass
class TrackedView:
    """A materialized view and the sum of its changes. `key` are the indexes of the key columns; without a key, the
    changes of an upsert view do not add up."""

    names: tuple[str, ...]
    kinds: tuple[Type, ...]
    kind: str
    key: tuple[int, ...] | None
    content: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    @property
    def adds_up(self) -> bool:
        return self.kind != "upsert" or self.key is not None

    def apply(self, row: tuple[Any, ...], weight: int) -> None:
        """Apply one change. An upsert replaces the row with its key."""
        if self.kind == "upsert" and weight > 0:
            for old in [each for each in self.content if self._identity(each) == self._identity(row)]:
                del self.content[old]
        self.content[row] += weight
        if not self.content[row]:
            del self.content[row]

    def _identity(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[index] for index in self.key or ())


class Law:
    """The first law of docs/semantics.md: changes add up to the content, and the content is the batch answer."""

    def __init__(self, engine: Engine, oracle: Oracle) -> None:
        self._engine = engine
        self._oracle = oracle
        self._views: dict[str, TrackedView] = {}
        self._steps = 0

    def update_views(self) -> None:
        """Track the views that exist now. One that is created after the first step starts with its stored content."""
        current = {name: view for name, view in self._oracle.views.items() if view.materialized}
        self._views = {name: view for name, view in self._views.items() if name in current and self._same(name, view)}
        for name in current.keys() - self._views.keys():
            self._views[name] = self._track(name)

    def _same(self, name: str, view: TrackedView) -> bool:
        return self._engine.columns(name) == tuple(zip(view.names, view.kinds, strict=True))

    def _track(self, name: str) -> TrackedView:
        columns = self._engine.columns(name)
        kinds = tuple(kind for _, kind in columns)
        names = tuple(column for column, _ in columns)
        view = TrackedView(names, kinds, self._engine.db.kind(name), self._key(name, names))
        if self._steps:
            view.content = Counter(self._stored(name))
        return view

    def _key(self, name: str, names: tuple[str, ...]) -> tuple[int, ...] | None:
        key = self._engine.key(name)
        return tuple(names.index(column) for column in key) if key is not None and set(key) <= set(names) else None

    def step(self, steps: range) -> dict[str, tuple[Emitted, ...]]:
        """What each view emitted in the micro-batches that just ran."""
        self._steps += 1
        return {name: self._emitted(name, view, steps) for name, view in self._views.items()}

    def _emitted(self, name: str, view: TrackedView, steps: range) -> tuple[Emitted, ...]:
        changes = []
        for change in self._engine.changes(name, steps):
            row = comparable([change.row[column] for column in view.names], view.kinds).values
            changes += [Emitted(change.step, change.op, row)] * abs(change.weight)
            view.apply(row, change.weight)
        return tuple(consolidate(changes, view.key, view.kind == "upsert"))

    def broken(self) -> list[Broken]:
        """The maintained views whose content is not the batch answer."""
        return [broken for name in self._views for broken in self._compare_with_batch(name)]

    def wrongly_late(self, steps: range) -> list[Broken]:
        """The relations of which rows were dropped as late in a step in which every row was in time at its input."""
        disordered = self._oracle.take_disordered()
        known = self._oracle.views.keys() | self._oracle.inputs.keys()
        late = Counter((relation, view) for relation, view in self._engine.late(steps) if relation.lower() in known)
        return [
            (view or relation, f"{count} rows of {relation} were late that were in time at its inputs", ())
            for (relation, view), count in late.items()
            if self._oracle.in_time(relation, disordered)
        ]

    def _compare_with_batch(self, name: str) -> list[Broken]:
        if name not in self._oracle.views or self._oracle.unanswerable(name) is not None:
            return []
        answer = self._oracle.answer(name)
        kinds = tuple(kind for _, kind in self._engine.columns(name))
        if answer.kinds != kinds:
            types = f"{', '.join(map(str, kinds))} instead of {', '.join(map(str, answer.kinds))}"
            return [(name, f"the columns of {name} have other types than its SELECT: {types}", ())]
        return self._difference(
            name, f"{name} is not what its SELECT gives as a batch", kinds, list(answer.rows), self._content(name)
        )

    def _content(self, name: str) -> list[Comparable]:
        view = self._views.get(name)
        if view is None or not view.adds_up:
            return [Comparable(row) for row in self._stored(name)]
        return [Comparable(row) for row in view.content.elements()]

    def stored(self) -> list[Broken]:
        """The views of which a query does not return the sum of their changes, and the views that are not maintained of
        which it does not return the batch answer."""
        problems: list[Broken] = []
        queried = list(self._views.items()) if self._steps else []
        for name, view in queried if len(queried) <= SAMPLE else queried[:: len(queried) // SAMPLE]:
            negative = [row for row, weight in view.content.items() if weight < 0]
            if negative:
                problems.append((name, f"{name} retracted rows that it had not emitted: {negative}", ()))
            elif view.adds_up:
                rows = [Comparable(row) for row in self._stored(name)]
                message = f"a query of {name} is not the sum of its changes"
                problems += self._difference(name, message, view.kinds, self._content(name), rows, ("sum", "query"))
        for name in self._oracle.views.keys() - self._views.keys() if self._steps else ():
            problems += self._compare_with_batch(name)
        return problems

    def _stored(self, name: str) -> list[tuple[Any, ...]]:
        kinds, rows = self._engine.ask(f"SELECT * FROM {name}")
        return [comparable(row, kinds).values for row in rows]

    def _difference(
        self,
        name: str,
        message: str,
        kinds: tuple[Type, ...],
        expected: list[Comparable],
        actual: list[Comparable],
        heads: tuple[str, str] = ("batch", "content"),
    ) -> list[Broken]:
        problem = diff(expected, actual, SLACK)
        if not problem:
            return []
        return [(name, message, side_by_side(problem, _lines(expected, kinds), _lines(actual, kinds), heads))]


def _lines(rows: list[Comparable], kinds: tuple[Type, ...]) -> list[str]:
    return [" | ".join(values.show(value, kind) for value, kind in zip(row.values, kinds, strict=True)) for row in rows]
