"""Nodes that work by time: windows, gates, temporal filters, and what stands at the door of a relation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.schema import Column
from tidegate.ir.specs import AggregateCall
from tidegate.ir.windows import WINDOW_KINDS, WindowSpec
from tidegate.kernels import aggregates
from tidegate.plan.leaves import Node
from tidegate.traits import Traits, keys, state, watermark
from tidegate.traits.watermark import Watermark, Watermarks, WindowEdge


@dataclass(frozen=True)
class Window(Node):
    """Every row once for each of its windows, with two more columns: where the window starts and ends. Sessions are per
    `partition`."""

    input: Node
    window: WindowSpec
    partition: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._require((self.window.time, *self.partition), self.input)
        below = self.input.traits
        kind = edge_type(self.input, self.window)
        edges = (Column(self.window.start, kind, False), Column(self.window.end, kind, False))
        session = self.window.kind == "session"
        several = WINDOW_KINDS[self.window.kind].overlapping
        key = below.key if below.key is None or not several else (*below.key, self.window.start, self.window.end)
        lines = below.watermarks + edge_watermarks(below.watermark(self.window.time), self.window)
        lost = ((self.window.start, _SESSION_START),) if session else ()
        append_only = below.append_only and not session
        kept = state.of_sessions(self.partition) if session else state.NONE
        self._derive(
            (*self.input.schema, *edges),
            Traits(key, append_only, lines, kept, below.lost + lost, below.delayed),
        )

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class WindowAggregate(Node):
    """One row per group and window: the key columns, the window's start and end, then one column per call. Once the
    frontier of the time column has passed a window's end by `lateness` microseconds, its row no longer changes.
    `line` is that frontier, None if the column has none."""

    input: Node
    window: WindowSpec
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    lateness: int = 0
    max_groups: int | None = None

    def __post_init__(self) -> None:
        used = [name for call in self.calls for name in (*call.args, call.filter) if name is not None]
        self._require((*self.keys, self.window.time, *used), self.input)
        below, window = self.input.traits, self.window
        by_name = {column.name: column for column in self.input.schema}
        kind = edge_type(self.input, window)
        edges = (Column(window.start, kind, False), Column(window.end, kind, False))
        outs = tuple(Column(call.out, call.type, call.func != "count") for call in self.calls)
        lines = watermark.lagged(
            watermark.only(below.watermarks, self.keys) + edge_watermarks(below.watermark(window.time), window),
            self.lateness,
        )
        several = (window.end,) if WINDOW_KINDS[window.kind].shared_start else ()
        identity = (*self.keys, window.start, *several)
        values = any(aggregates.needs_values(call, below.append_only) for call in self.calls)
        kept = state.of_windows(window.kind, self.keys, values, self.watermark is not None)
        lost = ((window.start, _SESSION_START),) if window.kind == "session" else ()
        traits = Traits(identity, False, lines, kept, lost, below.delayed)
        self._derive((*(by_name[name] for name in self.keys), *edges, *outs), traits)

    @property
    def watermark(self) -> Watermark | None:
        return self.input.traits.watermark(self.window.time)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Closing:
    """A column of the rows at a gate with the lines it is held against: a change may leave when it is below (or at, if
    `inclusive`) `release`, and comes too late when it is below `late`."""

    column: str
    release: Watermark
    late: Watermark
    inclusive: bool = False


@dataclass(frozen=True)
class Gate(Node):
    """Holds changes back: until all of `closing` are passed, or (with `every`, in microseconds) until processing time
    reaches a multiple of that. `corrects`: what has left may still be corrected. `lateness`: by how much that holds
    its watermarks back, in microseconds."""

    input: Node
    strategy: str
    closing: tuple[Closing, ...]
    every: int | None = None
    corrects: bool = False
    lateness: int = 0

    def __post_init__(self) -> None:
        self._require(tuple(each.column for each in self.closing), self.input)
        below = self.input.traits
        waits = self.every is None
        lines: Watermarks = watermark.lagged(below.watermarks, self.lateness) if waits else ()
        lost = below.lost if waits else tuple((column, _BY_THE_CLOCK) for column, _ in below.watermarks)
        self._derive(
            self.input.schema,
            Traits(below.key, waits and not self.corrects, lines, state.of_gate(), lost, True),
        )

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class TemporalFilter(Node):
    """Rows that are there for a time: while `since <= now < until`, in microseconds of processing time, which are
    columns below and none above (None: no such bound)."""

    input: Node
    since: str | None
    until: str | None

    def __post_init__(self) -> None:
        bounds = tuple(name for name in (self.since, self.until) if name is not None)
        self._require(bounds, self.input)
        below = self.input.traits
        schema = tuple(column for column in self.input.schema if column.name not in bounds)
        kept_names = {column.name: column.name for column in schema}
        leaves = self.until is not None
        lines = () if leaves else watermark.only(below.watermarks, tuple(kept_names))
        lost = tuple((column, "rows leave as NOW() moves") for column, _ in below.watermarks) if leaves else ()
        traits = Traits(
            keys.through_projection(below.key, kept_names),
            below.append_only and not leaves,
            lines if self.since is None else (),
            state.of_during(),
            below.lost + lost,
            below.delayed,
        )
        self._derive(schema, traits)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class IngressCheck(Node):
    """The rows of a view that LATENESS lets pass: changes of rows below a declared line are late. For a view of events:
    where its own time is seen, and where `checks` (a column with words, the code of the error) say what is wrong with
    an event, which column `row` shows."""

    input: Node
    view: str
    declared: Watermarks
    checks: tuple[tuple[str, str], ...] = ()
    row: str | None = None

    def __post_init__(self) -> None:
        self._require(tuple(column for column, _ in self.checks), self.input)
        below = self.input.traits
        found = dict(below.watermarks)
        for column, line in self.declared:
            found[column] = watermark.greatest([found[column], line]) if column in found else line
        lost = tuple((column, why) for column, why in below.lost if column not in found)
        self._derive(self.input.schema, replace(below, watermarks=tuple(found.items()), lost=lost, state=state.NONE))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Clocks(Node):
    """Columns that are PROCTIME(): what they are is the clock of the step, which only joins by processing time ask."""

    input: Node
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        added = tuple(Column(name, "timestamp") for name in self.names)
        self._derive((*self.input.schema, *added), replace(self.input.traits, clocks=self.names, state=state.NONE))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


_BY_THE_CLOCK = "EMIT EVERY lets rows go by the clock"
_SESSION_START = "a session may begin as far back as its rows reach"


def edge_type(input: Node, window: WindowSpec) -> str:
    """The type of a window's start and end: that of its time, or TIMESTAMP for dates."""
    found = next(column.type for column in input.schema if column.name == window.time)
    return "timestamp" if found == "date" else found


def edge_watermarks(line: Watermark | None, window: WindowSpec) -> Watermarks:
    """Starts and ends of windows that can still come. A session that is open may have begun at any time."""
    if line is None:
        return ()
    if window.kind == "session":
        return ((window.end, line),)
    kind = "timestamp" if line.type == "date" else line.type
    return (
        (window.start, WindowEdge(kind, line, window, "start")),
        (window.end, WindowEdge(kind, line, window, "end")),
    )
