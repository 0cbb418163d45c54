"""Runs spec files against an engine: each up to its next step, then the step, then on."""

from __future__ import annotations

import re
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tidegate.errors import Error, render
from tidegate.sql import parse
from tidegate.testing.batch import Batch
from tidegate.testing.inputs import DELETE, INSERT, TOMBSTONE, Given
from tidegate.testing.line_values import LineValues
from tidegate.testing.oracle import Oracle, drain
from tidegate.testing.spec import model, values
from tidegate.testing.spec.checks import check, check_warnings
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.law import Broken, Law
from tidegate.testing.spec.outcome import Outcome, Stop
from tidegate.testing.statements import note

PLAIN_VIEW = re.compile(
    r"""^\s*CREATE\s+(OR\s+REPLACE\s+)?(?P<kind>VIEW)\s+(IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w`"]+)""",
    re.IGNORECASE | re.MULTILINE,
)

Rows = list[tuple[str, Given]]
Advances = list[tuple[str, Any]]
Waiting = list[tuple["Runner", model.Run]]


def drive(specs: Sequence[model.Spec], engine: Engine, spark: Any, restarts: bool) -> list[Outcome]:
    """Run specs side by side on one engine: the n-th steps of all of them are one step, and inputs end for all at once,
    when none has another step. With `restarts`, the engine is restarted between all steps."""
    line_values = LineValues(Batch(spark))
    runners = [Runner(spec, engine, Oracle(line_values), restarts) for spec in specs]
    ran = False
    ending: Waiting = []
    while waiting := _next_runs(runners, ending):
        if restarts and ran:
            engine.restart()
        ran = True
        try:
            steps = _run(waiting, engine)
            for runner, item in waiting:
                runner.follow(item)
            if not restarts:
                drain([runner.oracle for runner, _ in waiting])
        except Exception as problem:
            for runner, item in waiting:
                runner.crashed(item, problem)
        else:
            for runner, item in waiting:
                runner.ran(item, steps)
    for runner in runners:
        runner.finish()
    return [runner.outcome for runner in runners]


def _next_runs(runners: Sequence[Runner], ending: Waiting) -> Waiting:
    """The next run of every spec. Ends of inputs are kept in `ending` until there is no other run."""
    kept = {id(runner) for runner, _ in ending}
    found = [(runner, item) for runner in runners if id(runner) not in kept and (item := runner.proceed()) is not None]
    ending += [each for each in found if isinstance(each[1], model.End)]
    others = [each for each in found if not isinstance(each[1], model.End)]
    if others:
        return others
    ended = list(ending)
    ending.clear()
    return ended


def _run(waiting: Waiting, engine: Engine) -> range:
    rows: Rows = []
    advances: Advances = []
    for runner, item in waiting:
        if isinstance(item, model.Clock):
            return engine.clock(item.micros)
        if isinstance(item, model.End):
            return engine.end()
        more_rows, more_advances = runner.inputs(item)
        rows += more_rows
        advances += more_advances
    engine.feed(rows, advances)
    return engine.step()


class Runner:
    """One run of one spec."""

    def __init__(self, spec: model.Spec, engine: Engine, oracle: Oracle, restarts: bool) -> None:
        self.engine = engine
        self.oracle = oracle
        self.law = Law(engine, oracle)
        self.outcome = Outcome(spec, engine, "restarted between steps" if restarts else "")
        self._checks_law = not restarts
        self._left = deque(spec.items)
        self._followed = {item.view.lower() for item in spec.items if isinstance(item, model.Emits)}

    def proceed(self) -> model.Run | None:
        """Does everything up to the next step, which is returned; None at the end."""
        while self._left:
            item = self._left.popleft()
            if isinstance(item, model.Run):
                return item
            with self._guarded(item):
                self._do(item)
        return None

    def inputs(self, item: model.Run) -> tuple[Rows, Advances]:
        """What a step gives to the engine; the oracle is told as well."""
        rows: Rows = []
        advances: Advances = []
        for given in item.inputs if isinstance(item, model.Step) else ():
            if isinstance(given, model.Rows):
                rows += [(given.relation, self._given(given.relation, row)) for row in given.rows]
            else:
                kind = dict(self.engine.columns(given.relation))[given.column]
                value = values.parse(given.value, kind)
                advances.append((f"{given.relation}.{given.column}", value))
                self.oracle.advance(given.relation, given.column, value)
        for relation, one in rows:
            self.oracle.give(relation, [one])
        return rows, advances

    def ran(self, item: model.Run, steps: range) -> None:
        """The step has run: takes note of what left the views, and holds them against the oracle."""
        with self._guarded(item):
            self.outcome.emissions.append((item, self.law.step(steps)))
            if self._checks_law:
                self._record(item, self.law.broken())

    def follow(self, item: model.Run) -> None:
        """The oracle takes the same step."""
        match item:
            case model.Clock():
                self.oracle.move_clock(item.micros)
            case model.End():
                self.oracle.end()
            case _:
                self.oracle.step()

    def crashed(self, item: model.Item, problem: Exception) -> None:
        with self._guarded(item):
            raise problem

    def finish(self) -> None:
        """At the end, what queries see is what the views emitted."""
        items = self.outcome.spec.items
        if self._checks_law and items and not self.outcome.failures:
            with self._guarded(items[-1]):
                self._record(items[-1], self.law.stored())

    def _do(self, item: model.Item) -> None:
        match item:
            case model.Sql():
                self._execute(item.text)
            case model.Warned():
                check_warnings(item, self.outcome, self._execute(item.statement))
            case model.Restart():
                self.engine.restart()
            case _:
                check(item, self.outcome)

    def _execute(self, text: str) -> list[Any]:
        text = PLAIN_VIEW.sub(self._maintained, text)
        warnings = list(self.engine.db.sql(text).warnings)
        note(self.oracle, parse(text), self.engine.db.schema, self._without_batch_answer)
        self.law.learn()
        return warnings

    def _maintained(self, begun: re.Match[str]) -> str:
        """A plain view is maintained only as far as others need it: a spec that says what it emits does."""
        name = begun["name"].strip('`"').lower()
        return begun[0].replace(begun["kind"], "MATERIALIZED VIEW") if name in self._followed else begun[0]

    def _without_batch_answer(self, view: str) -> str | None:
        """Joins that depend on when rows come have no batch answer; kernels are held against a model of their own."""
        plan = self.engine.plan(view) or ""
        found = {"interval join": "an interval join", "lookup ": "a lookup"}
        return next((f"it has {words}" for text, words in found.items() if text in plan), None)

    def _record(self, item: model.Item, found: Sequence[Broken]) -> None:
        for view, message, detail in found:
            self.outcome.fail(item.line, message, detail, view)

    @contextmanager
    def _guarded(self, item: model.Item) -> Iterator[None]:
        """An error that no check expected is a failure, and ends the run."""
        try:
            yield
        except Stop:
            self._left.clear()
        except Error as problem:
            self.outcome.fail(item.line, problem.message, render(problem).splitlines(), refused=True)
            self._left.clear()
        except values.WrongValue as problem:
            self.outcome.fail(item.line, str(problem))
            self._left.clear()
        except Exception as problem:
            crash = "".join(traceback.format_exception(problem)).splitlines()
            self.outcome.fail(item.line, f"crashed with {type(problem).__name__}", crash)
            self._left.clear()

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


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, values.JsonText) else value
