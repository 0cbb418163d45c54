"""Runs one spec file against an engine, check by check."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, singledispatchmethod
from typing import Any

from tidegate.errors import Error, render
from tidegate.sql import parse
from tidegate.testing.inputs import DELETE, INSERT, TOMBSTONE, Given
from tidegate.testing.oracle import Oracle
from tidegate.testing.spec import model, values
from tidegate.testing.spec.compare import Comparable, comparable, diff
from tidegate.testing.spec.consolidate import Emitted
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.law import Law
from tidegate.testing.spec.report import Failure, side_by_side
from tidegate.testing.spec.types import Type
from tidegate.testing.statements import note

Emissions = dict[str, tuple[Emitted, ...]]


@dataclass
class Outcome:
    """What came of one run: the checks that failed, and what every view emitted in every step."""

    failures: list[Failure] = field(default_factory=list)
    emissions: list[tuple[model.Run, Emissions]] = field(default_factory=list)


class Stop(Exception):
    """The run cannot go on: what follows would only fail because of this."""


class Runner:
    """One run of one spec. With `restarts`, the engine is restarted between all steps."""

    def __init__(self, spec: model.Spec, engine: Engine, oracle: Oracle, restarts: bool) -> None:
        self.spec = spec
        self.engine = engine
        self.oracle = oracle
        self.restarts = restarts
        self.outcome = Outcome()
        self.law = Law(engine, oracle)
        self._step = ""
        self._ran = False

    def run(self) -> Outcome:
        try:
            for item in self.spec.items:
                self._guarded(item, partial(self._do, item))
            if not self.restarts and self.spec.items:
                self._guarded(self.spec.items[-1], lambda: self._broken(self.spec.items[-1], self.law.stored()))
        except Stop:
            pass
        return self.outcome

    def _guarded(self, item: model.Item, action: Callable[[], None]) -> None:
        """An error that no check expected ends the run with its text."""
        try:
            action()
        except Error as problem:
            self._fail(item.line, problem.message, render(problem).splitlines(), refused=True)
            raise Stop from problem
        except values.WrongValue as problem:
            self._fail(item.line, str(problem))
            raise Stop from problem
        except Exception as problem:
            crash = traceback.format_exception(problem)
            self._fail(item.line, f"crashed with {type(problem).__name__}", "".join(crash).splitlines())
            raise Stop from problem

    @singledispatchmethod
    def _do(self, item: model.Item) -> None:
        raise TypeError(f"no rule for {type(item).__name__}")

    @_do.register
    def _(self, item: model.Sql) -> None:
        self._execute(item.text)

    @_do.register
    def _(self, item: model.Kind) -> None:
        found = self.engine.db.kind(item.view)
        if found != item.kind:
            self._fail(item.line, f"{item.view} is of kind {found}, expected {item.kind}", view=item.view)

    @_do.register
    def _(self, item: model.Restart) -> None:
        self.engine.restart()

    @_do.register
    def _(self, item: model.Step) -> None:
        self._restart_between()
        rows: list[tuple[str, Given]] = []
        advances: list[tuple[str, Any]] = []
        for given in item.inputs:
            if isinstance(given, model.Rows):
                rows += [(given.relation, self._given(given.relation, row)) for row in given.rows]
            else:
                kind = dict(self.engine.columns(given.relation))[given.column]
                advances.append((f"{given.relation}.{given.column}", values.parse(given.value, kind)))
        self.engine.feed(rows, advances)
        for relation, row in rows:
            self.oracle.give(relation, [row])
        self._ran_step(item, self.engine.step())

    @_do.register
    def _(self, item: model.Clock) -> None:
        self._restart_between()
        self._ran_step(item, self.engine.clock(item.millis))

    @_do.register
    def _(self, item: model.End) -> None:
        self._restart_between()
        self._ran_step(item, self.engine.end())

    def _restart_between(self) -> None:
        if self.restarts and self._ran:
            self.engine.restart()
        self._ran = True

    def _ran_step(self, item: model.Run, steps: range) -> None:
        self._step = item.title
        self.oracle.step()
        self.outcome.emissions.append((item, self.law.step(steps)))
        if not self.restarts:
            self._broken(item, self.law.broken())

    def _broken(self, item: model.Item, found: list[tuple[str, str, tuple[str, ...]]]) -> None:
        for view, message, detail in found:
            self._fail(item.line, message, detail, view)

    @_do.register
    def _(self, item: model.Emits) -> None:
        _, emitted = self.outcome.emissions[-1] if self.outcome.emissions else (None, Emissions())
        if item.view.lower() not in emitted:
            raise Error("UNKNOWN_RELATION", f"{item.view} is no view that was maintained in this step")
        kinds = tuple(kind for _, kind in self.engine.columns(item.view))
        actual = [(one.op, one.values) for one in emitted[item.view.lower()]]
        self._compare(item, f"< {item.view}", item.rows, kinds, actual, item.view)

    @_do.register
    def _(self, item: model.Content) -> None:
        kinds, rows = self.engine.ask(f"SELECT * FROM {item.relation}")
        self._compare(item, f"= {item.relation}", item.rows, kinds, [("", row) for row in rows], item.relation)

    @_do.register
    def _(self, item: model.Ask) -> None:
        kinds, rows = self.engine.ask(item.query)
        self._compare(item, f"? {item.query}", item.rows, kinds, [("", row) for row in rows])

    @_do.register
    def _(self, item: model.Late) -> None:
        condition = f"lower(relation) = '{item.relation.lower()}'"
        _, [(count,)] = self.engine.ask(f"SELECT count(*) FROM system.late_rows WHERE {condition}")
        if count != item.count:
            self._fail(item.line, f"{count} rows of {item.relation} were late, expected {item.count}")

    @_do.register
    def _(self, item: model.Waterline) -> None:
        where = f"lower(relation) = '{item.relation.lower()}' AND lower(`column`) = '{item.column.lower()}'"
        _, rows = self.engine.ask(f"SELECT value FROM system.waterlines WHERE {where}")
        kind = dict(self.engine.columns(item.relation))[item.column]
        found = values.show(rows[0][0], kind) if rows and rows[0][0] is not None else "none"
        wanted = item.value if item.value == "none" else values.show(values.parse(item.value, kind), kind)
        if found != wanted:
            self._fail(item.line, f"the waterline of {item.relation}.{item.column} is {found}, expected {wanted}")

    @_do.register
    def _(self, item: model.Refused) -> None:
        try:
            self.engine.db.sql(item.statement)
        except Error as problem:
            self._check_text(item, problem.code, render(problem))
        else:
            self._fail(item.line, f"accepted, expected error {item.code}", item.statement.splitlines())
            raise Stop

    @_do.register
    def _(self, item: model.Warned) -> None:
        warnings = self._execute(item.statement)
        found = next((one for one in warnings if item.code in ("*", one.code)), None)
        if found is None:
            self._fail(item.line, f"no warning {item.code}", [render(one) for one in warnings])
        else:
            self._check_text(item, found.code, render(found))

    def _execute(self, text: str) -> list[Any]:
        warnings = list(self.engine.db.sql(text).warnings)
        note(self.oracle, parse(text), self.engine.db.schema)
        self.law.learn()
        return warnings

    def _check_text(self, item: model.Refused | model.Warned, code: str, text: str) -> None:
        absent = [one for one in item.texts if one.lower() not in text.lower()]
        if item.code not in ("*", code):
            self._fail(item.line, f"code {code}, expected {item.code}", text.splitlines())
        elif absent:
            self._fail(item.line, f"the text does not say: {'; '.join(absent)}", text.splitlines())

    def _given(self, relation: str, row: model.Row) -> Given:
        columns = self.engine.columns(relation)
        if row.tombstone:
            key = {name.lower() for name in self.oracle.inputs[relation.lower()].key}
            columns = tuple(column for column in columns if column[0].lower() in key)
        if len(columns) != len(row.cells):
            names = ", ".join(name for name, _ in columns)
            raise Error("SPEC_ROW", f"line {row.line}: {len(row.cells)} values for {relation} ({names})")
        parsed = tuple(_plain(values.parse(cell, kind)) for cell, (_, kind) in zip(row.cells, columns, strict=True))
        return Given(TOMBSTONE if row.tombstone else DELETE if row.sign else INSERT, parsed)

    def _compare(
        self,
        item: model.Item,
        what: str,
        rows: tuple[model.Row, ...],
        kinds: tuple[Type, ...],
        actual: list[tuple[str, tuple[Any, ...]]],
        view: str | None = None,
    ) -> None:
        expected = [self._expected(what, row, kinds) for row in rows]
        found = [comparable(row, kinds, op) for op, row in actual]
        problem = diff(expected, found)
        if problem:
            lines = side_by_side(problem, [_line(one, kinds) for one in expected], [_line(one, kinds) for one in found])
            self._fail(item.line, what, lines, view)

    def _expected(self, what: str, row: model.Row, kinds: tuple[Type, ...]) -> Comparable:
        if len(row.cells) != len(kinds):
            raise Error("SPEC_ROW", f"line {row.line}: {len(row.cells)} values, {what} has {len(kinds)} columns")
        parsed = [values.parse(cell, kind) for cell, kind in zip(row.cells, kinds, strict=True)]
        return comparable(parsed, kinds, row.sign)

    def _fail(self, line: int, message: str, detail: Any = (), view: str | None = None, refused: bool = False) -> None:
        plan = self.engine.plan(view) if view is not None else None
        mode = "restarted between steps" if self.restarts else ""
        self.outcome.failures.append(
            Failure(self.spec.path, line, self.spec.title, self._step, mode, message, tuple(detail), plan, refused)
        )


def _line(row: Comparable, kinds: tuple[Type, ...]) -> str:
    cells = " | ".join(values.show(value, kind) for value, kind in zip(row.values, kinds, strict=True))
    return f"{row.op} {cells}".strip()


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, values.JsonText) else value
