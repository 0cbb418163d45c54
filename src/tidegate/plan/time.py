"""Nodes that depend on time: windows, temporal filters and ingress checks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.schema import Column
from tidegate.ir.specs import AggregateCall
from tidegate.ir.windows import WINDOW_KINDS, WindowSpec
from tidegate.kernels import aggregates
from tidegate.plan.leaves import Node, Unary
from tidegate.traits import Traits, keys, state, watermark
from tidegate.traits.watermark import Watermark, Watermarks, WindowEdge


@dataclass(frozen=True)
class Window(Unary):
    """Every row once for each of its windows, with the start and end of the window as two more columns. Sessions are
    per `partition`."""

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
        kept = () if session else below.watermarks
        watermarks = kept + edge_watermarks(below.watermark(self.window.time), self.window)
        lost = below.lost
        if session:
            lost += tuple((column, _SESSION_CHANGES) for column, _ in below.watermarks)
            lost += ((self.window.start, _SESSION_START),)
        append_only = below.append_only and not session
        stored = state.of_sessions(self.partition) if session else state.NONE
        self._derive((*self.input.schema, *edges), Traits(key, append_only, watermarks, stored, lost, below.delayed))


@dataclass(frozen=True)
class WindowAggregate(Unary):
    """One row per group and window: the key columns, the window's start and end, then one column per call. Once the
    watermark of the time column has passed a window's end by `lateness` microseconds, its row no longer changes."""

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
        closed = watermark.enforce(edge_watermarks(below.watermark(window.time), window))
        watermarks = watermark.lag_all(watermark.only(below.watermarks, self.keys) + closed, self.lateness)
        several = (window.end,) if WINDOW_KINDS[window.kind].shared_start else ()
        identity = (*self.keys, window.start, *several)
        values = any(aggregates.needs_values(call, below.append_only) for call in self.calls)
        stored = state.of_windows(window.kind, self.keys, values, self.watermark is not None)
        lost = ((window.start, _SESSION_START),) if window.kind == "session" else ()
        traits = Traits(identity, False, watermarks, stored, lost, below.delayed)
        self._derive((*(by_name[name] for name in self.keys), *edges, *outs), traits)

    @property
    def watermark(self) -> Watermark | None:
        return self.input.traits.watermark(self.window.time)


@dataclass(frozen=True)
class TemporalFilter(Unary):
    """Rows while `since <= now < until`, in microseconds of processing time. Both are columns of the input, which the
    result does not have (None: no such bound)."""

    since: str | None
    until: str | None

    def __post_init__(self) -> None:
        bounds = tuple(name for name in (self.since, self.until) if name is not None)
        self._require(bounds, self.input)
        below = self.input.traits
        schema = tuple(column for column in self.input.schema if column.name not in bounds)
        passed = {column.name: column.name for column in schema}
        leaves = self.until is not None
        watermarks = () if leaves else watermark.only(below.watermarks, tuple(passed))
        lost = tuple((column, "rows leave as NOW() moves") for column, _ in below.watermarks) if leaves else ()
        traits = Traits(
            keys.through_projection(below.key, passed),
            below.append_only and not leaves,
            watermarks if self.since is None else (),
            state.of_temporal_filter(),
            below.lost + lost,
            below.delayed,
        )
        self._derive(schema, traits)


@dataclass(frozen=True)
class IngressCheck(Unary):
    """The rows of a view at or above its LATENESS watermarks; changes of others are late. For a view over the event
    bus: observes its event time, and reports events that fail one of `checks` (a column with the message, the code of
    the error), which column `row` holds as JSON."""

    view: str
    declared: Watermarks
    checks: tuple[tuple[str, str], ...] = ()
    row: str | None = None

    def __post_init__(self) -> None:
        self._require(tuple(column for column, _ in self.checks), self.input)
        below = self.input.traits
        watermarks = dict(below.watermarks)
        for column, declared in self.declared:
            own = watermarks.get(column)
            watermarks[column] = declared if own is None else watermark.greatest([own, declared])
        lost = tuple((column, why) for column, why in below.lost if column not in watermarks)
        traits = replace(below, watermarks=tuple(watermarks.items()), lost=lost, state=state.NONE)
        self._derive(self.input.schema, traits)


@dataclass(frozen=True)
class Clocks(Unary):
    """Adds columns that are PROCTIME(), the clock of the step. Only joins by processing time can read them."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        added = tuple(Column(name, "timestamp") for name in self.names)
        self._derive((*self.input.schema, *added), replace(self.input.traits, clocks=self.names, state=state.NONE))


_SESSION_CHANGES = "the rows of a session change until it closes"
_SESSION_START = "a session may begin as far back as its rows reach"


def edge_type(input: Node, window: WindowSpec) -> str:
    """The type of a window's start and end: that of its time, or TIMESTAMP for dates."""
    type = next(column.type for column in input.schema if column.name == window.time)
    return "timestamp" if type == "date" else type


def edge_watermarks(time: Watermark | None, window: WindowSpec) -> Watermarks:
    """The watermarks of a window's edges, from that of its time. An open session may have begun at any time."""
    if time is None:
        return ()
    if window.kind == "session":
        return ((window.end, time),)
    kind = "timestamp" if time.type == "date" else time.type
    return (
        (window.start, WindowEdge(kind, time, window, "start")),
        (window.end, WindowEdge(kind, time, window, "end")),
    )
