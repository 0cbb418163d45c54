"""GROUP BY windows of fixed length: tumble, hop and cumulate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import HASH
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateSpec, WindowAggregateSpec
from tidegate.kernels.aggregate import groups_content, unfiled
from tidegate.kernels.aggregates.bags import table_name, value_ident
from tidegate.kernels.aggregates.partial import Partial
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.step import GroupStep
from tidegate.kernels.api import INFINITE, LATE, NO_TIME, OK, Clock, Delta, RowError, State
from tidegate.kernels.cap import EARLIEST, Cap
from tidegate.kernels.hops import Hops
from tidegate.kernels.lines import Lines, line_micros, micros, since
from tidegate.kernels.sessions import Sessions
from tidegate.kernels.windows import Filing, Grid

PANE = "__pane"


def on_port(spec: WindowAggregateSpec) -> AggregateSpec:
    """The aggregate as it is over the rows of the port, where windows are not known yet: its keys are those by which
    rows are brought together, and with `aggregates.hashes` it says what hashes they must carry."""
    window, inner = spec.window, spec.aggregate
    others = tuple(name for name in inner.keys if name not in (window.start, window.end))
    return replace(inner, keys=others, append_only=inner.append_only and window.kind != "session")


def make_windowed(spec: WindowAggregateSpec) -> Windowed | Sessions:
    return Sessions(spec) if spec.window.kind == "session" else Windowed(spec)


class Windowed:
    """Rows become partial results per pane on their way, panes are taken apart into the windows that are still open,
    and windows are groups like any other, filed by their end. Those that no row can reach any more are forgotten."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self.spec = spec
        port = on_port(spec)
        most, edges = spec.aggregate.max_groups, (spec.window.start, spec.window.end)
        self._grid = Grid(spec.window)
        least, units = None if most is None else EARLIEST, {} if self._grid.by_month else {PANE: self._grid.unit}
        self._port = Partial(Plan(replace(port, keys=(*port.keys, PANE))), least, units)
        self.plan = Plan(spec.aggregate)
        self._partial = Partial(self.plan)
        self.filing = Filing(self._grid)
        flat = Partial(Plan(replace(port, keys=())), least)
        self._hops = Hops(flat, self._grid, port.keys)
        self._cap = None if most is None else Cap(spec.aggregate.keys, most, edges, self.filing.of_window)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """A row is late if no window of it is open: if it is before the start of all that are."""
        times = micros(rows[self._time(rows)])
        verdict = pl.select(pl.when(times.is_null()).then(NO_TIME).otherwise(self._late(times, clock)).cast(pl.Int8))
        return verdict.to_series() if (verdict.to_series() != OK).any() else None

    @property
    def hashes_after_combine(self) -> bool:
        return self._port.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        if PANE in rows.columns:
            return self._port.combined(rows)
        times = micros(rows[self._time(rows)])
        if times.null_count():
            rows, times = rows.filter(times.is_not_null()), times.drop_nulls()
        earliest = [] if self._cap is None else [times.alias(EARLIEST)]
        panes = pl.Series(PANE, self._grid.panes(times.to_numpy()))
        return self._port.combined(rows.with_columns(panes, *earliest))

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        return unfiled(self.filed_step(inputs[0], clock, state, first))

    def filed_step(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        delta = Delta() if rows is None or rows.is_empty() else self._changes(rows, clock, state)
        return replace(delta, evicted=self.forget(clock, state))

    def _changes(self, rows: pl.DataFrame, clock: Clock, state: State) -> Delta:
        groups, errors = self.groups(rows, clock, state)
        return Delta(None if groups is None else groups.changes(filed=True), errors)

    def groups(self, rows: pl.DataFrame, clock: Clock, state: State) -> tuple[GroupStep | None, list[RowError]]:
        """The windows that rows are in, one by one for every key, and what was refused."""
        errors: list[RowError] = []
        rows = self._windows(rows, since(clock, self.spec.delayed))
        if self._cap is not None:
            rows, errors = self._cap.admitted(rows, state)
        parts = self._partial.parts(rows)
        return (None if parts.groups.is_empty() else GroupStep(self.plan, parts, clock, state)), errors

    def forget(self, clock: Clock, state: State) -> int:
        """Drops the windows that are closed for good; gives the number of groups."""
        closed = self.taken(clock, state)
        return 0 if closed is None else closed.height

    def taken(self, clock: Clock, state: State) -> pl.DataFrame | None:
        """Takes the windows that are closed for good out of the state: what was kept of them."""
        line = self.line(clock.watermarks)
        if line is None:
            return None
        limit = None if line == INFINITE else self.filing.limit(int(line) - self.spec.lateness)
        for number, values in enumerate(self.plan.values):
            bag = state.stored(table_name(number), value_ident(self.plan, number)) if values.stored else None
            if bag is not None:
                bag.evict_below(limit)
        if self._cap is not None:
            self._cap.forget_below(limit, state)
        groups = state.stored("groups", self.spec.aggregate.keys)
        return None if groups is None else groups.evict_below(limit)

    def content(self, state: State) -> pl.DataFrame | None:
        """The results of the windows that are kept: of those that are closed for good nothing is known any more."""
        return groups_content(self.plan, state)

    def line(self, lines: Lines) -> int | str | None:
        """The frontier in microseconds, or INFINITE."""
        line = None if self.spec.watermark is None else lines.get(self.spec.watermark)
        return INFINITE if line == INFINITE else line_micros(line, self.spec.window.type == "date")

    def _time(self, rows: pl.DataFrame) -> str:
        name, type = self.spec.window.time, self.spec.window.type
        if rows.schema[name] != polars_type(type):
            raise TypeError(f"{name} was said to be a {type}, but comes as {rows.schema[name]}")
        return name

    def _late(self, times: pl.Series, clock: Clock) -> pl.Series:
        line = self.line(since(clock, self.spec.delayed))
        if line is None:
            return pl.repeat(OK, len(times), eager=True)
        covered = pl.Series(self._grid.covered(times.fill_null(0).to_numpy()))
        if line == INFINITE:
            return covered.cast(pl.Int8) * LATE
        start, _ = self._grid.opened(int(line) - self.spec.lateness)
        return (covered & (times < start)).cast(pl.Int8) * LATE

    def _windows(self, rows: pl.DataFrame, lines: Lines) -> pl.DataFrame:
        """Partial results of panes as those of windows that are open."""
        line, window = self.line(lines), self.spec.window
        if line == INFINITE:
            rows, line = rows.clear(), None
        after = None if line is None else int(line) - self.spec.lateness
        if self._hops.pays(rows.height):
            rows = self._hops.summed(rows, PANE)
            found = self._grid.hops(rows[PANE].to_numpy(), after)
        else:
            found = self._grid.windows(rows[PANE].to_numpy(), after)
        if len(found.row) != rows.height or self._grid.kind != "tumble":
            rows = rows[found.row]
        filed = self.filing.filed(found.mark, rows[HASH].to_numpy())
        stamps = [(window.start, found.start), (window.end, found.end)]
        dtype = pl.Datetime("us", None if window.type == "timestamp_ntz" else "UTC")
        times = [pl.Series(name, values).cast(dtype) for name, values in stamps]
        return rows.drop(PANE).with_columns(pl.Series(HASH, filed), *times)
