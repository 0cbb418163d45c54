"""The first law as a check: a view's content equals its SELECT, run by Spark as a batch over the accepted rows, cut by
its EMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.catalog.bus import BUS, EVENTS, is_bus
from tidegate.core.types import Type
from tidegate.core.types import from_arrow as type_of
from tidegate.sql.statements import Query
from tidegate.testing.batch import Job
from tidegate.testing.evaluation import evaluate
from tidegate.testing.inputs import INSERT, Given, Input
from tidegate.testing.instance import Instance, Source
from tidegate.testing.line_values import LineValues
from tidegate.testing.oracle_query import reads, uses_arrival
from tidegate.testing.rows import of_arrow
from tidegate.testing.sources import InputSource, Moment, lines_now
from tidegate.testing.spec.compare import Comparable, comparable
from tidegate.testing.time.amounts import EPOCH, INFINITE, MICROSECOND, Amount, Unknown
from tidegate.testing.time.emit import Emit, early_fire, said

BEGINNING = (EPOCH.replace(year=2020) - EPOCH) // MICROSECOND
"""Where the virtual clock begins."""


@dataclass
class View:
    """A view as the oracle knows it. `starts`: how many rows each source had when the view began."""

    name: str
    query: Query
    materialized: bool
    reads: tuple[str, ...]
    emit: Emit = field(default_factory=Emit)
    aliases: tuple[str, ...] = ()
    starts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """Rows of a batch query, comparable, with the types of their columns."""

    rows: tuple[Comparable, ...]
    kinds: tuple[Type, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Micro:
    """A micro-batch: the clock, and what it is of each input."""

    clock: int
    inputs: Mapping[str, Moment]


class Oracle:
    """Holds every input's accepted rows and every view's SELECT; answers what a view must contain now.

    Micro-batches queue up until somebody asks."""

    def __init__(self, line_values: LineValues) -> None:
        self._line_values = line_values
        self.batch = line_values.batch
        self.inputs: dict[str, Input] = {}
        self.views: dict[str, View] = {}
        self.lateness: dict[str, dict[str, Amount]] = {}
        self.settings: dict[str, str] = {}
        self.clock = BEGINNING
        self._sources: dict[tuple[str, int], InputSource] = {}
        self._instances: dict[str, Instance] = {}
        self._plain: dict[tuple[object, ...], Instance] = {}
        self._advances: list[tuple[str, str, Any]] = []
        self._queue: list[Micro] = []
        self.add_input(Input(BUS, EVENTS.columns, source=True, append_only=True))

    def add_input(self, given: Input) -> None:
        self.inputs[given.name.lower()] = given

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
            emit = said(query, final, early_fire(self.settings))
        except Unknown:
            emit = Emit("unknown")
        view = View(name.lower(), query, materialized, reads(query), emit, aliases)
        self.views[view.name] = view
        view.starts = {source: len(self.inputs[source].rows) for source in self._sources_of(view.reads)}
        made = self._instances[view.name] = self._made(view, view.starts)
        self._made_again(view.name)
        if made.timed and made.began_with_rows:
            self._catch_up()

    def _made_again(self, replaced: str) -> None:
        """What reads a view that was replaced reads the new one."""
        changed = {replaced}
        for reader in self.views.values():
            if reader.name != replaced and changed & set(reader.reads):
                changed.add(reader.name)
                self._instances[reader.name] = self._made(reader, reader.starts)

    def drop(self, name: str) -> None:
        """Forgets a relation and all that read it."""
        for view in [one.name for one in self.views.values() if name.lower() in one.reads]:
            self.drop(view)
        self.views.pop(name.lower(), None)
        self._instances.pop(name.lower(), None)
        self._plain = {key: one for key, one in self._plain.items() if one.name != name.lower()}
        if self.inputs.pop(name.lower(), None) is not None:
            self._sources = {key: one for key, one in self._sources.items() if key[0] != name.lower()}

    def give(self, relation: str, given: Iterable[Given]) -> None:
        known = self.inputs[relation.lower()]
        known.give(map(self._stamped, given) if is_bus(relation) else given)

    def _stamped(self, event: Given) -> Given:
        """An event with what the bus fills in."""
        fills = {"operation": "INSERT", "created_at": EPOCH + self.clock * MICROSECOND}
        row = (
            fills.get(each.name) if value is None else value
            for each, value in zip(EVENTS.columns, event.row, strict=True)
        )
        return Given(event.action, tuple(row))

    def advance(self, relation: str, column: str, value: Any) -> None:
        """Moves a frontier after the next step."""
        self._advances.append((relation.lower(), column, value))

    def declare_lateness(self, view: str, column: str, delay: Amount) -> None:
        """`LATENESS view.column delay`."""
        self._drain()
        self.lateness.setdefault(view.lower(), {})[column.lower()] = delay
        for instance in self._all():
            if instance.name == view.lower():
                instance.declared.delays[column.lower()] = delay

    def lose(self, view: str, why: str) -> None:
        """From now on, nothing can be said about a view."""
        if view.lower() in self._instances:
            self._instances[view.lower()].lost = why

    def says_emit(self, view: str) -> bool:
        """Whether a view says when its results leave, or has no windows to wait for."""
        found = self.views.get(view.lower())
        return found is None or found.emit.strategy is not None or not self._instances[found.name].timed

    def step(self) -> None:
        """The rows given so far are accepted; then what they set free."""
        self._micro(self._advance)
        while any(relation.waiting for relation in self.inputs.values()):
            self._micro(lambda: None)

    def move_clock(self, micros: int) -> None:
        """A step in which the processing clock has moved."""
        self.clock += micros
        self.step()

    def end(self) -> None:
        """A step in which all inputs end: what is held back comes, then every frontier is at infinity."""
        for relation in self.inputs.values():
            for hold in relation.time.holds:
                hold.seen = INFINITE
        self.step()
        self._micro(self._end)

    def unanswerable(self, name: str) -> str | None:
        """Why a view's content cannot be told by a batch query, or None if it can."""
        self._catch_up()
        view = self.views[name.lower()]
        unknown = [one for one in view.reads if one not in self.views and one not in self.inputs]
        if unknown or not view.reads:
            return f"it reads {', '.join(unknown) or 'nothing'}"
        if uses_arrival(view.query) and not all(self._keeps_order(one) for one in view.reads):
            return "it asks for the first or last row of an input whose order of arrival is not kept"
        instance = self._instances[view.name]
        if instance.lost is not None:
            return instance.lost
        silent = [one.name for one in self._inputs_behind(view.name) if one.time.idle_timeout and not one.rows]
        if silent and instance.timed:
            return f"{silent[0]} never had a row, and holds others up only until its idle_timeout"
        if not view.materialized and instance.timed:
            return "it is not maintained: a query asks it as a batch"
        return next((why for one in view.reads if one in self.views and (why := self._unreadable(one))), None)

    def _inputs_behind(self, name: str) -> list[Input]:
        """The inputs that a relation comes from, directly or not."""
        if name in self.inputs:
            return [self.inputs[name]]
        view = self.views.get(name)
        return [] if view is None else [each for below in view.reads for each in self._inputs_behind(below)]

    def _unreadable(self, name: str) -> str | None:
        view = self.views[name]
        if not view.materialized and self._instances[name].timed:
            return self._instances[name].lost
        return self.unanswerable(name)

    def answer(self, name: str) -> Answer:
        """What the view must contain now."""
        instance = self._present(name.lower())
        rows, kinds = instance.content(), instance.kinds
        return Answer(tuple(comparable(row, kinds) for row in rows), kinds, tuple(rows))

    def select(self, sql: str, names: Sequence[str]) -> Answer:
        """The answer of an ad-hoc query over relations as they are now."""
        self._catch_up()
        tables = {}
        for name in names:
            found = self._present(name) if name in self._instances else self._source(name, 0)
            tables[name] = found.table()
        [table] = self.batch.run([Job(sql, tables)])
        rows, kinds = of_arrow(table), tuple(type_of(one.type) for one in table.schema)
        return Answer(tuple(comparable(row, kinds) for row in rows), kinds, tuple(rows))

    def _end(self) -> None:
        for relation in self.inputs.values():
            relation.time.end()

    def _advance(self) -> None:
        for relation, column, moved in self._advances:
            given = self.inputs[relation]
            given.time.advance(given.place(column), moved)
        self._advances = []

    def _micro(self, then: Callable[[], object]) -> None:
        """One micro-batch; `then` moves frontiers further when its rows are in."""
        before = {name: lines_now(relation) for name, relation in self.inputs.items()}
        for relation in self.inputs.values():
            relation.step(self.clock)
        then()
        for relation in self.inputs.values():
            relation.time.tick(self.clock)
        moments = {
            name: Moment(tuple(relation.rows), tuple(relation.changes), (before[name], lines_now(relation)))
            for name, relation in self.inputs.items()
        }
        self._queue.append(Micro(self.clock, moments))
        self._divert_late_rows()

    def _divert_late_rows(self) -> None:
        """LATE DATA TO: late rows are rows of a table, in the same step."""
        diverting = [view for view in self.views.values() if view.query.late_data_to is not None]
        for view in diverting:
            self._drain()
            target = view.query.late_data_to
            rows = self._instances[view.name].late()
            if target is not None and target.text.lower() in self.inputs:
                self.give(target.text, [Given(INSERT, row) for row in rows])

    def _catch_up(self) -> None:
        """Every view has its answer as of now."""
        self._drain()
        fresh = [one for one in self._all() if not one.answered_once and one.lost is None]
        if fresh:
            evaluate(fresh, self.batch, self.clock)

    def _drain(self) -> None:
        drain([self])

    def take_queue(self) -> list[Micro]:
        """The micro-batches that no view has seen yet; the caller brings the views through them."""
        queue, self._queue = self._queue, []
        return queue

    def enter(self, micro: Micro) -> list[Instance]:
        """Show a micro-batch to the sources; the views that it has to be brought through."""
        for (name, _), source in self._sources.items():
            source.enter(micro.inputs[name])
        return self._all()

    def settle(self) -> None:
        """End the micro-batch that was entered last."""
        for source in self._sources.values():
            source.settle()

    def _all(self) -> list[Instance]:
        """All views that are followed. One that is not materialized is followed once for each reader."""
        kept = [one for name, one in self._instances.items() if self.views[name].materialized]
        return [*self._plain.values(), *kept]

    def _present(self, name: str) -> Instance:
        """A view with its answer as of now."""
        self._catch_up()
        instance = self._instances[name]
        if not self.views[name].materialized and instance.lost is None:
            evaluate([instance], self.batch, self.clock)
        return instance

    def _made(self, view: View, starts: dict[str, int]) -> Instance:
        sources: dict[str, Source] = {}
        for name in view.reads:
            if name in self.inputs:
                sources[name] = self._source(name, starts.get(name, 0))
            elif name in self.views and self.views[name].materialized:
                sources[name] = self._instances[name]
            elif name in self.views:
                sources[name] = self._plain_instance(self.views[name], starts)
        made = Instance(view.name, view.query, view.emit, sources, self._line_values, self.clock, view.aliases)
        made.declared.delays.update(self.lateness.get(view.name, {}) if view.materialized else {})
        return made

    def _plain_instance(self, view: View, starts: dict[str, int]) -> Instance:
        """A view that is not materialized is read with the starts of whoever reads it."""
        mine = {name: starts[name] for name in self._sources_of(view.reads) if name in starts}
        made = self._made(view, mine)
        made.declared.delays.update(self.lateness.get(view.name, {}))
        key = (view.name, tuple(sorted(mine.items())), id(made) if made.timed else 0)
        return self._plain.setdefault(key, made)

    def _source(self, name: str, start: int) -> InputSource:
        if (name, start) not in self._sources:
            self._sources[name, start] = InputSource(self.inputs[name], start)
        return self._sources[name, start]

    def _keeps_order(self, name: str) -> bool:
        return name in self.inputs and self.inputs[name].source

    def _sources_of(self, names: Iterable[str]) -> set[str]:
        """The sources that are read directly or through views that are not materialized."""
        found: set[str] = set()
        for name in names:
            if name in self.inputs and self.inputs[name].source:
                found.add(name)
            elif name in self.views and not self.views[name].materialized:
                found |= self._sources_of(self.views[name].reads)
        return found


def drain(oracles: Sequence[Oracle]) -> None:
    """Bring the views of all oracles up to date. The n-th micro-batches of all oracles are evaluated together, with one
    job per level for all of them. The oracles must share one batch, and no two relations may share a name."""
    queues = [(oracle, oracle.take_queue()) for oracle in oracles]
    for number in range(max((len(queue) for _, queue in queues), default=0)):
        entered = [(oracle, queue[number]) for oracle, queue in queues if number < len(queue)]
        for clock in sorted({micro.clock for _, micro in entered}):
            together = [(oracle, micro) for oracle, micro in entered if micro.clock == clock]
            views = [view for oracle, micro in together for view in oracle.enter(micro)]
            evaluate(views, together[0][0].batch, clock)
        for oracle, _ in entered:
            oracle.settle()
