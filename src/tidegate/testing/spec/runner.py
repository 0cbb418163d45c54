"""Runs specs against an engine, step by step, and checks every step against the oracle."""

from __future__ import annotations

import re
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tidegate.errors import Error, render
from tidegate.sql import parse
from tidegate.testing.oracle.batch import Batch, WatermarkValues
from tidegate.testing.oracle.evaluation import drain
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE, InputRow
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.oracle.statements import apply_script
from tidegate.testing.spec import model, values
from tidegate.testing.spec.checks import check, check_warnings
from tidegate.testing.spec.engine import Engine
from tidegate.testing.spec.law import Broken, Law
from tidegate.testing.spec.report import Outcome, Stop

PLAIN_VIEW = re.compile(
    r"""^\s*CREATE\s+(OR\s+REPLACE\s+)?(?P<kind>VIEW)\s+(IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w`"]+)""",
    re.IGNORECASE | re.MULTILINE,
)

Rows = list[tuple[str, InputRow]]
Advances = list[tuple[str, Any]]
Runs = list[tuple["Runner", model.Run]]


def drive(specs: Sequence[model.Spec], engine: Engine, spark: Any, restarts: bool) -> list[Outcome]:
    """Run specs side by side on one engine: the n-th steps of all of them are one step, and inputs end for all at once,
    when none has another step. With `restarts`, the engine is restarted between all steps."""
    watermark_values = WatermarkValues(Batch(spark))
    runners = [Runner(spec, engine, Oracle(watermark_values), restarts) for spec in specs]
    ran = False
    ending: Runs = []
    while runs := _next_runs(runners, ending):
        if restarts and ran:
            engine.restart()
        ran = True
        try:
            steps = _run(runs, engine)
            for runner, item in runs:
                runner.follow(item)
            if not restarts:
                drain([runner.oracle for runner, _ in runs])
        except Exception as problem:
            for runner, item in runs:
                runner.crashed(item, problem)
        else:
            for runner, item in runs:
                runner.finish_step(item, steps)
    for runner in runners:
        runner.finish()
    return [runner.outcome for runner in runners]


def _next_runs(runners: Sequence[Runner], ending: Runs) -> Runs:
    """The next run of every spec. Ends of inputs are collected in `ending` until there is no other run."""
    waiting = {id(runner) for runner, _ in ending}
    active = [runner for runner in runners if id(runner) not in waiting]
    runs = [(runner, item) for runner in active if (item := runner.proceed()) is not None]
    ending += [each for each in runs if isinstance(each[1], model.End)]
    others = [each for each in runs if not isinstance(each[1], model.End)]
    if others:
        return others
    ended = list(ending)
    ending.clear()
    return ended


def _run(runs: Runs, engine: Engine) -> range:
    rows: Rows = []
    advances: Advances = []
    for runner, item in runs:
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
        self._items = deque(spec.items)
        self._checked_views = {item.view.lower() for item in spec.items if isinstance(item, model.Emits)}

    def proceed(self) -> model.Run | None:
        """Execute all items before the next run, and return that run; None at the end."""
        while self._items:
            item = self._items.popleft()
            if isinstance(item, model.Run):
                return item
            with self._guarded(item):
                self._execute_item(item)
        return None

    def inputs(self, item: model.Run) -> tuple[Rows, Advances]:
        """The rows and advances of a step, which the oracle receives as well."""
        rows: Rows = []
        advances: Advances = []
        for block in item.inputs if isinstance(item, model.Step) else ():
            if isinstance(block, model.Rows):
                rows += [(block.relation, self._input_row(block.relation, row)) for row in block.rows]
            else:
                kind = dict(self.engine.columns(block.relation))[block.column]
                value = values.parse(block.value, kind)
                advances.append((f"{block.relation}.{block.column}", value))
                self.oracle.advance(block.relation, block.column, value)
        for relation, row in rows:
            self.oracle.write(relation, [row])
        return rows, advances

    def finish_step(self, item: model.Run, steps: range) -> None:
        """Record what the views emitted in a step, and compare them with the oracle."""
        with self._guarded(item):
            self.outcome.emissions.append((item, self.law.step(steps)))
            self._record(item, self.law.wrongly_late(steps))
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
        """Check at the end that queries return what the views emitted."""
        items = self.outcome.spec.items
        if self._checks_law and items and not self.outcome.failures:
            with self._guarded(items[-1]):
                self._record(items[-1], self.law.stored())

    def _execute_item(self, item: model.Item) -> None:
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
        text = PLAIN_VIEW.sub(self._materialize, text)
        warnings = list(self.engine.db.sql(text).warnings)
        apply_script(self.oracle, parse(text), self.engine.db.schema, self._no_batch_answer)
        self.law.update_views()
        return warnings

    def _materialize(self, create: re.Match[str]) -> str:
        """CREATE VIEW becomes CREATE MATERIALIZED VIEW if the spec checks what the view emits."""
        name = create["name"].strip('`"').lower()
        return create[0].replace(create["kind"], "MATERIALIZED VIEW") if name in self._checked_views else create[0]

    def _no_batch_answer(self, view: str) -> str | None:
        """Why a view has no batch answer: the result of some joins depends on when rows arrive. Property tests of their
        kernels cover them."""
        plan = self.engine.plan(view) or ""
        joins = {"interval join": "an interval join", "lookup ": "a lookup", ", late if ": "a join that rejects rows"}
        return next((f"it has {words}" for text, words in joins.items() if text in plan), None)

    def _record(self, item: model.Item, broken: Sequence[Broken]) -> None:
        for view, message, detail in broken:
            self.outcome.fail(item.line, message, detail, view)

    @contextmanager
    def _guarded(self, item: model.Item) -> Iterator[None]:
        """Record an unexpected error as a failure, and end the run of the spec."""
        try:
            yield
        except Stop:
            self._items.clear()
        except Error as problem:
            self.outcome.fail(item.line, problem.message, render(problem).splitlines(), rejected=True)
            self._items.clear()
        except values.WrongValue as problem:
            self.outcome.fail(item.line, str(problem))
            self._items.clear()
        except Exception as problem:
            crash = "".join(traceback.format_exception(problem)).splitlines()
            self.outcome.fail(item.line, f"crashed with {type(problem).__name__}", crash)
            self._items.clear()

    def _input_row(self, relation: str, row: model.Row) -> InputRow:
        columns = self.engine.columns(relation)
        if row.tombstone:
            key = {name.lower() for name in self.oracle.inputs[relation.lower()].key}
            columns = tuple(column for column in columns if column[0].lower() in key)
        if len(columns) != len(row.cells):
            names = ", ".join(name for name, _ in columns)
            raise Error("SPEC_ROW", f"line {row.line}: {len(row.cells)} values for {relation} ({names})")
        parsed = tuple(_plain(values.parse(cell, kind)) for cell, (_, kind) in zip(row.cells, columns, strict=True))
        return InputRow(TOMBSTONE if row.tombstone else DELETE if row.sign else INSERT, parsed)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, values.JsonText) else value
