"""Computes what every view must contain: its SELECT, run by Spark as a batch over the accepted rows, restricted to what
its EMIT has released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.catalog.bus import BUS, EVENTS, is_bus
from tidegate.core.types import Type
from tidegate.core.types import from_arrow as type_of
from tidegate.sql.statements import Query
from tidegate.testing.oracle.amounts import EPOCH, INFINITE, MICROSECOND, Amount, Unknown, micros
from tidegate.testing.oracle.bags import from_arrow
from tidegate.testing.oracle.batch import Job, WatermarkValues
from tidegate.testing.oracle.emit import Emit, early_fire, emit_of
from tidegate.testing.oracle.evaluation import drain, evaluate
from tidegate.testing.oracle.graph import Graph, View
from tidegate.testing.oracle.inputs import INSERT, Input, InputBatch, InputRow
from tidegate.testing.oracle.query import reads, uses_arrival
from tidegate.testing.oracle.view import ViewModel
from tidegate.testing.spec.compare import Comparable, comparable

BEGINNING = micros(EPOCH.replace(year=2020))
"""The start of the virtual clock."""


@dataclass(frozen=True)
class Answer:
    """The rows of a batch query, in comparable form and as values, with the types of their columns."""

    rows: tuple[Comparable, ...]
    kinds: tuple[Type, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class MicroBatch:
    """The clock of a micro-batch, and its part of every input."""

    clock: int
    inputs: Mapping[str, InputBatch]


class Oracle:
    """Follows all relations of a pipeline. Micro-batches queue up until an answer is needed."""

    def __init__(self, watermark_values: WatermarkValues) -> None:
        self.batch = watermark_values.batch
        self._graph = Graph(watermark_values)
        self.inputs, self.views = self._graph.inputs, self._graph.views
        self.settings: dict[str, str] = {}
        self.clock = BEGINNING
        self._advances: list[tuple[str, str, Any]] = []
        self._queue: list[MicroBatch] = []
        self.add_input(Input(BUS, EVENTS.columns, source=True, append_only=True))

    def add_input(self, relation: Input) -> None:
        self.inputs[relation.name.lower()] = relation

    def add_view(
        self,
        name: str,
        query: Query,
        materialized: bool,
        aliases: tuple[str, ...] = (),
        final: str | None = None,
    ) -> None:
        self._drain()
        try:
            emit = emit_of(query, final, early_fire(self.settings))
        except Unknown:
            emit = Emit("unknown")
        delays = emit.strategy is not None or final is not None or query.late_data_to is not None
        maintained = materialized or delays or self._graph.declares_lateness(name.lower())
        view = View(name.lower(), query, maintained, reads(query), emit, aliases)
        model = self._graph.add_view(view, self.clock)
        if not maintained and model.windows:
            self._catch_up()
            if model.waits:
                model = self._graph.add_view(replace(view, materialized=True), self.clock)
        if model.timed and model.began_with_rows:
            self._catch_up()

    def drop(self, name: str) -> None:
        """Remove a relation and all views that read it."""
        self._graph.drop(name.lower())

    def write(self, relation: str, rows: Iterable[InputRow]) -> None:
        """Queue rows of an input for the next step."""
        self.inputs[relation.lower()].write(map(self._complete_event, rows) if is_bus(relation) else rows)

    def _complete_event(self, event: InputRow) -> InputRow:
        """An event with the defaults of the event bus."""
        defaults = {"operation": "INSERT", "created_at": EPOCH + self.clock * MICROSECOND}
        row = (
            defaults.get(column.name) if value is None else value
            for column, value in zip(EVENTS.columns, event.row, strict=True)
        )
        return InputRow(event.action, tuple(row))

    def advance(self, relation: str, column: str, value: Any) -> None:
        """Raise a watermark after the rows of the next step."""
        self._advances.append((relation.lower(), column, value))

    def declare_lateness(self, view: str, column: str, delay: Amount) -> None:
        """`LATENESS view.column delay`."""
        self._drain()
        self._graph.declare_lateness(view.lower(), column.lower(), delay)
        plain = self.views.get(view.lower())
        if plain is not None and not plain.materialized:
            self._graph.add_view(replace(plain, materialized=True), self.clock)

    def set_unknown(self, view: str, reason: str) -> None:
        """Do not check a view from now on."""
        if view.lower() in self._graph.models:
            self._graph.models[view.lower()].unknown = reason

    def has_emit(self, view: str) -> bool:
        """True if a view has an EMIT clause, or its content does not depend on time."""
        definition = self.views.get(view.lower())
        if definition is None or definition.emit.strategy is not None:
            return True
        return not self._graph.models[definition.name].timed

    def step(self) -> None:
        """Accept the rows written so far, then those that they release from hold-back."""
        self._run_micro_batch(self._apply_advances)
        while any(relation.has_pending for relation in self.inputs.values()):
            self._run_micro_batch(lambda: None)

    def move_clock(self, micros: int) -> None:
        """A step in which the processing clock has moved."""
        self.clock += micros
        self.step()

    def end(self) -> None:
        """A step in which all inputs end: rows held back are released, then every watermark is infinite."""
        for relation in self.inputs.values():
            for hold_back in relation.time.hold_backs:
                hold_back.largest = INFINITE
        self.step()
        self._run_micro_batch(self._end_inputs)

    def unanswerable(self, name: str) -> str | None:
        """Why a batch query cannot compute a view's content, or None if it can."""
        self._catch_up()
        view = self.views[name.lower()]
        missing = [relation for relation in view.reads if relation not in self.views and relation not in self.inputs]
        if missing or not view.reads:
            return f"it reads {', '.join(missing) or 'nothing'}"
        if uses_arrival(view.query) and not all(self._keeps_order(relation) for relation in view.reads):
            return "it asks for the first or last row of an input whose order of arrival is not kept"
        model = self._graph.models[view.name]
        if model.unknown is not None:
            return model.unknown
        silent = [each.name for each in self._graph.inputs_of(view.name) if each.time.idle_timeout and not each.rows]
        if silent and model.timed:
            return f"{silent[0]} never had a row, and delays others only until its idle_timeout"
        if not view.materialized and model.timed:
            return "it is not maintained: queries run it as a batch"
        views = [relation for relation in view.reads if relation in self.views]
        return next((reason for relation in views if (reason := self._unreadable(relation))), None)

    def _unreadable(self, name: str) -> str | None:
        model = self._graph.models[name]
        if not self.views[name].materialized and model.timed:
            return model.unknown
        return self.unanswerable(name)

    def take_disordered(self) -> set[str]:
        """The inputs of which a row was below a watermark since the last call."""
        disordered = {name for name, relation in self.inputs.items() if relation.disorder}
        for relation in self.inputs.values():
            relation.disorder = False
        return disordered

    def in_time(self, name: str, disordered: set[str]) -> bool:
        """True if no row of a relation can be late, since those of its inputs are all in time. Events get their time
        from the views that read them, and LATENESS of a view makes rows late that were in time at its inputs."""
        inputs = {each.name.lower() for each in self._graph.inputs_of(name.lower())}
        return bool(inputs) and not inputs & {*disordered, BUS} and not self._graph.declares_lateness(name.lower())

    def answer(self, name: str) -> Answer:
        """What the view must contain now."""
        model = self._current(name.lower())
        return _answer(model.content(), model.kinds)

    def select(self, sql: str, names: Sequence[str]) -> Answer:
        """The answer of an ad-hoc query over the current content of relations."""
        self._catch_up()
        tables = {
            name: (self._current(name) if name in self._graph.models else self._graph.source(name, 0)).table()
            for name in names
        }
        [table] = self.batch.run([Job(sql, tables)])
        return _answer(from_arrow(table), tuple(type_of(field.type) for field in table.schema))

    def _keeps_order(self, name: str) -> bool:
        return name in self.inputs and self.inputs[name].source

    def _end_inputs(self) -> None:
        for relation in self.inputs.values():
            relation.time.end()

    def _apply_advances(self) -> None:
        for name, column, value in self._advances:
            relation = self.inputs[name]
            relation.time.advance(relation.index(column), value, self.clock)
        self._advances = []

    def _run_micro_batch(self, raise_watermarks: Callable[[], object]) -> None:
        """Run one micro-batch of the inputs and queue it; `raise_watermarks` is called after its rows."""
        before = {name: relation.watermarks() for name, relation in self.inputs.items()}
        for relation in self.inputs.values():
            relation.step(self.clock)
        raise_watermarks()
        for relation in self.inputs.values():
            relation.time.move_clock(self.clock)
        inputs = {
            name: InputBatch(tuple(relation.rows), tuple(relation.changes), (before[name], relation.watermarks()))
            for name, relation in self.inputs.items()
        }
        self._queue.append(MicroBatch(self.clock, inputs))
        self._write_late_rows()

    def _write_late_rows(self) -> None:
        """LATE DATA TO: insert late rows into a table, in the same step."""
        targets = [(view.name, view.query.late_data_to) for view in self.views.values()]
        for name, target in targets:
            if target is None:
                continue
            self._drain()
            rows = self._graph.models[name].take_late()
            if target.text.lower() in self.inputs:
                self.write(target.text, [InputRow(INSERT, row) for row in rows])

    def _catch_up(self) -> None:
        """Bring every view up to date, including those that have no answer yet."""
        self._drain()
        fresh = [model for model in self._graph.maintained() if not model.has_answer and model.unknown is None]
        if fresh:
            evaluate(fresh, self.batch, self.clock)

    def _drain(self) -> None:
        drain([self])

    def take_queue(self) -> list[MicroBatch]:
        """The micro-batches that no view has seen yet; the caller brings the views through them."""
        queue, self._queue = self._queue, []
        return queue

    def enter(self, micro_batch: MicroBatch) -> list[ViewModel]:
        """Begin a micro-batch at the inputs; returns the views to bring through it."""
        for (name, _), source in self._graph.sources.items():
            source.enter(micro_batch.inputs[name])
        return self._graph.maintained()

    def settle(self) -> None:
        """End the micro-batch that was entered last."""
        for source in self._graph.sources.values():
            source.settle()

    def _current(self, name: str) -> ViewModel:
        """A view with its answer as of now."""
        self._catch_up()
        model = self._graph.models[name]
        if not self.views[name].materialized and model.unknown is None:
            evaluate([model], self.batch, self.clock)
        return model


def _answer(rows: Sequence[tuple[Any, ...]], kinds: tuple[Type, ...]) -> Answer:
    return Answer(tuple(comparable(row, kinds) for row in rows), kinds, tuple(rows))
