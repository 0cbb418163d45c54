"""Runs a pipeline step by step and says what every relation contains, what was late, and what the watermarks are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.differential.groups import Grouped
from tests.differential.held import Origin, marks_of_open_windows, marks_of_waiting
from tests.differential.inputs import InputState, Late, Marks, Relation, Rows
from tests.differential.joins import Joined
from tests.differential.marks import END, START, Mark, is_below, latest, mapped
from tests.differential.pipeline import WAITING, Beat, Change, Group, Join, Pipeline, Select, Step, Union, View
from tests.differential.queries import Entry, LateRows, Query, window_marks
from tests.differential.rows import Selected, United

CLOCK = 1577836800
"""Where a virtual clock begins: 2020-01-01."""
MOST_LAG = 80
"""More than views on each other can allow."""
LateCounts = Counter[tuple[str, str | None, str]]


@dataclass(frozen=True)
class Outcome:
    """After a step: rows by relation; how many rows were late so far, by relation, view and op; the watermarks."""

    contents: dict[str, Rows]
    late: LateCounts
    marks: dict[str, dict[str, Mark]]


class ViewMarks(Marks):
    """The watermarks of a view follow from those of its sources, and never go back."""

    def __init__(
        self, view: View, query: Query, sources: list[Relation], declared: dict[str, Mark], earlier: Marks
    ) -> None:
        self._lagging: dict[int, dict[str, Mark]] = {}
        for lag in range(0, MOST_LAG + 1, 5):
            marks = _marks_of(view, query, sources, lag)
            for column, mark in declared.items():
                marks[column] = latest(marks.get(column), mapped(mark, lambda at, lag=lag: at - lag))
            self._lagging[lag] = {column: latest(earlier.of(column, lag), mark) for column, mark in marks.items()}
        super().__init__(self._lagging[0])

    def of(self, column: str, lag: int = 0) -> Mark:
        return self._lagging[min(lag, MOST_LAG)].get(column)


def _marks_of(view: View, query: Query, sources: list[Relation], lag: int) -> dict[str, Mark]:
    """The watermarks of what leaves a view."""
    if view.emit == "EVERY":
        return {}
    marks = query.marks("now", lag)
    if view.emit not in WAITING:
        return marks
    window = view.query.window if isinstance(view.query, Select | Group) else None
    if window is None:
        return marks_of_waiting(view.name, marks, query.origins, query.closing("now", lag + view.allowed))
    [source] = sources
    edges = window_marks(source.now, window, lag + view.allowed)
    return marks_of_open_windows(marks, query.origins, edges, source, window.time)


class ViewState(Relation):
    def __init__(self, view: View, relations: dict[str, Relation]) -> None:
        self.view = view
        self._sources = [relations[name] for name in view.query.sources]
        self.query = _query(view, relations)
        super().__init__(view.name, self.query.columns)
        self._shown: Counter[Entry] = Counter()
        self._true: Counter[Entry] = Counter()
        self._emitted: Rows = Counter()
        self._declared: dict[str, Mark] = dict.fromkeys(view.lateness, START)
        self._declared_before = self._declared
        self.watch(moved=True)

    @property
    def key(self) -> tuple[int, ...] | None:
        return self.query.key

    def origin(self, column: str) -> Origin | None:
        return self.query.origins.get(column)

    def begin(self) -> None:
        """Begin a pass: what was true until now is what its rows are compared with."""
        self.before, self._declared_before = self.now, dict(self._declared)

    def run(self, deltas: dict[str, Rows], clock: int, earlier: int) -> tuple[Rows, LateRows]:
        """The change of the content, and the late rows by the relation that they came from."""
        late = self.query.accept(deltas, clock)
        true = self.query.entries(clock)
        self._shown = self._visible(true, clock, earlier)
        self._true = true
        emitted: Rows = Counter()
        for entry, weight in self._shown.items():
            emitted[entry.row] += weight
        delta = Counter(emitted)
        delta.subtract(self._emitted)
        self._emitted = emitted
        delta = self._in_time(Counter({row: weight for row, weight in delta.items() if weight}), late)
        self.content.update(delta)
        return delta, late

    def _visible(self, true: Counter[Entry], clock: int, earlier: int) -> Counter[Entry]:
        now, before = self.query.closing("now"), self.query.closing("before")
        if self.view.emit in WAITING:
            if self.view.emit == "ON WINDOW CLOSE":
                now = self.query.closing("now", self.view.allowed)
            return Counter({entry: weight for entry, weight in true.items() if entry.closed(now)})
        if self.view.emit != "EVERY":
            return true
        every = self.view.every
        if clock // every > earlier // every:
            return true
        shown = self._shown
        here = {entry.key for entry in true}
        known = [*true, *(entry for entry in shown if entry.key not in here)]
        closing = {entry.key for entry in known if entry.closed(now) and not entry.closed(before)}
        kept = {entry: weight for entry, weight in shown.items() if entry.key not in closing}
        return Counter(kept | {entry: weight for entry, weight in true.items() if entry.key in closing})

    def _in_time(self, delta: Rows, late: LateRows) -> Rows:
        """Without the changes below a declared LATENESS, which are late."""
        taken: Rows = Counter()
        for row, weight in delta.items():
            record = self.record(row)
            if any(is_below(record[column], declared) for column, declared in self._declared_before.items()):  # type: ignore[arg-type]
                late.setdefault(self.name, []).append((row, weight))
                continue
            taken[row] = weight
            for column, delay in self.view.lateness.items():
                value = record[column]
                if isinstance(value, int) and weight > 0:
                    self._declared[column] = latest(self._declared[column], value - delay)
        return taken

    def end(self) -> None:
        """After the end of the inputs, declared watermarks are at infinity, too."""
        self._declared = dict.fromkeys(self._declared, END)

    def watch(self, moved: bool) -> None:
        """The watermarks, given those of the sources; `moved`: also by the rows of the pass."""
        declared = dict(self._declared if moved else self._declared_before)
        self.now = ViewMarks(self.view, self.query, self._sources, declared, self.now)


class Simulator:
    def __init__(self, pipeline: Pipeline) -> None:
        self._clock = self._earlier = CLOCK
        self._inputs = {one.name: InputState(one, CLOCK) for one in pipeline.inputs}
        self.relations: dict[str, Relation] = dict(self._inputs)
        self.views: dict[str, ViewState] = {}
        for view in pipeline.views:
            self.views[view.name] = self.relations[view.name] = ViewState(view, self.relations)
        self._late: LateCounts = Counter()

    def step(self, step: Step, beat: Beat) -> Outcome:
        self._clock += beat.clock
        self._passes(list(step.changes), step.advances)
        if beat.end:
            for one in self._inputs.values():
                one.release()
            self._passes([], ())
            self._passes([], (), end=True)
        contents = {name: +Counter(relation.content) for name, relation in self.relations.items()}
        return Outcome(contents, Counter(self._late), {name: one.now.plain for name, one in self.relations.items()})

    def _passes(self, changes: list[Change], advances: tuple[tuple[str, str, int], ...], end: bool = False) -> None:
        """As many passes as there are rows for: late ones that go into tables, and those that were held back."""
        changes = self._pass(changes, advances, end)
        while changes or any(one.releases for one in self._inputs.values()):
            changes = self._pass(changes, (), end=False)

    def _pass(self, changes: list[Change], advances: tuple[tuple[str, str, int], ...], end: bool) -> list[Change]:
        """One pass over all relations: the rows, then what the watermarks that they moved release. Returns late rows,
        which go into tables in the next pass."""
        for one in self._inputs.values():
            one.begin(self._clock)
        for view in self.views.values():
            view.begin()
        deltas: dict[str, Rows] = {}
        for name, one in self._inputs.items():
            deltas[name], late = one.take([change for change in changes if change.relation == name], self._clock)
            self._record(name, None, late)
        following = self._run_views(deltas, moved=False)
        self._earlier = self._clock
        for name, one in self._inputs.items():
            if end:
                one.end()
            for relation, column, value in advances:
                if relation == name:
                    one.heartbeat(column, value, self._clock)
            one.watch(self._clock)
        for view in self.views.values() if end else ():
            view.end()
        return following + self._run_views({}, moved=True)

    def _run_views(self, deltas: dict[str, Rows], moved: bool) -> list[Change]:
        """Bring all views up to date; `moved`: the rows of the pass have moved the watermarks."""
        following = []
        for name, view in self.views.items():
            deltas[name], late_by_source = view.run(deltas, self._clock, self._earlier)
            view.watch(moved)
            for source, rows in late_by_source.items():
                self._record(source, None if source == name else name, rows)
                if view.view.late_to:
                    following += [
                        Change(view.view.late_to, "INSERT", row) for row, weight in rows for _ in range(weight)
                    ]
        return following

    def _record(self, relation: str, view: str | None, rows: list[Late]) -> None:
        for _, weight in rows:
            self._late[relation, view, "+I" if weight > 0 else "-D"] += abs(weight)


def _query(view: View, relations: dict[str, Relation]) -> Query:
    query = view.query
    sources = [relations[name] for name in query.sources]
    match query:
        case Select():
            return Selected(view, sources[0], _key_of(sources[0]))
        case Group():
            return Grouped(view, sources[0])
        case Union():
            return United(query, sources)
        case Join():
            return Joined(query, *sources)


def _key_of(relation: Relation) -> tuple[int, ...] | None:
    if isinstance(relation, ViewState):
        return relation.key
    return (0,) if isinstance(relation, InputState) and relation.keyed else None
