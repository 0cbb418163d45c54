"""GROUP BY windows of fixed length: tumble, hop and cumulate.

Hopping windows are summed from panes in rounds: a window of 60 panes is the sum of one of 32, one of 16, one of 8 and
one of 4, and one of 32 is the sum of two of 16. So all windows take a few rounds, not 60 times the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import HASH
from tidegate.core.types import polars_type
from tidegate.ir.specs import AggregateSpec, WindowAggregateSpec
from tidegate.kernels.aggregate import groups_content, without_hash
from tidegate.kernels.aggregates.bags import table_name, value_ident
from tidegate.kernels.aggregates.partial import Partial
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.step import GroupStep
from tidegate.kernels.api import INFINITE, LATE, NO_TIME, OK, Clock, Delta, RowError, State
from tidegate.kernels.frames import find_rows
from tidegate.kernels.group_limit import EARLIEST, GroupLimit
from tidegate.kernels.session_aggregate import SessionAggregate
from tidegate.kernels.watermarks import Watermarks, micros, watermark_micros, watermarks_for
from tidegate.kernels.windows import Grid, WindowOrder

MANY = 100_000
"""The number of pairs of panes and windows from which rounds are faster."""


class Hops:
    """`partial` groups by hash alone: here a hash is the number of a key together with that of a window."""

    def __init__(self, partial: Partial, grid: Grid, keys: Sequence[str]) -> None:
        self._partial, self._grid, self._keys = partial, grid, list(keys)

    def pays(self, panes: int) -> bool:
        return self._grid.regular and panes * self._grid.panes_each > MANY

    def sum_panes(self, rows: pl.DataFrame, pane: str) -> pl.DataFrame:
        """Partial results of panes as partial results of windows; `pane` becomes the number of the window."""
        keys = rows.select(HASH, *self._keys).unique(maintain_order=True)
        number = find_rows(rows, keys, self._keys)
        slides = self._grid.slides(rows[pane].to_numpy())
        lowest = int(slides.min()) - self._grid.panes_each
        width = int(slides.max()) - lowest + 1
        flat = pl.Series(HASH, number * width + (slides - lowest))
        windows = self._rounds(rows.drop(*self._keys, pane).with_columns(flat))
        key, slide = windows[HASH] // width, windows[HASH] % width
        return windows.drop(HASH).with_columns(*keys[key], (slide + lowest).alias(pane))

    def _rounds(self, level: pl.DataFrame) -> pl.DataFrame:
        """`level` has the sums of 1, 2, 4 ... panes; those that the length is made of are put beside each other."""
        length, covered, total = self._grid.panes_each, 0, level.clear()
        for power in range(length.bit_length()):
            if length >> power & 1:
                total = self._together(total, _earlier(level, covered))
                covered += 1 << power
            if length >> (power + 1):
                level = self._together(level, _earlier(level, 1 << power))
        return total

    def _together(self, one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
        return other if one.is_empty() else self._partial.combine(pl.concat([one, other], how="diagonal"))


def _earlier(rows: pl.DataFrame, panes: int) -> pl.DataFrame:
    return rows.with_columns(pl.col(HASH) - panes)


PANE = "__pane"


def on_port(spec: WindowAggregateSpec) -> AggregateSpec:
    """The aggregate over the rows of the port, where windows are not assigned yet: its keys are those by which rows are
    shuffled, and `aggregates.hashes` of it are the hashes that rows must have."""
    window, inner = spec.window, spec.aggregate
    others = tuple(name for name in inner.keys if name not in (window.start, window.end))
    return replace(inner, keys=others, append_only=inner.append_only and window.kind != "session")


def make_windowed(spec: WindowAggregateSpec) -> WindowAggregate | SessionAggregate:
    return SessionAggregate(spec) if spec.window.kind == "session" else WindowAggregate(spec)


class WindowAggregate:
    """Rows are aggregated per pane before the shuffle, panes are assigned to the windows that are still open, and
    windows are groups like any other, stored in the order of their end. Windows closed for good are evicted."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self.spec = spec
        port = on_port(spec)
        most, edges = spec.aggregate.max_groups, (spec.window.start, spec.window.end)
        self._grid = Grid(spec.window)
        least, units = None if most is None else EARLIEST, {} if self._grid.by_month else {PANE: self._grid.unit}
        self._port = Partial(Plan(replace(port, keys=(*port.keys, PANE))), least, units)
        self.plan = Plan(spec.aggregate)
        self._partial = Partial(self.plan)
        self.order = WindowOrder(self._grid)
        flat = Partial(Plan(replace(port, keys=())), least)
        self._hops = Hops(flat, self._grid, port.keys)
        self._cap = None if most is None else GroupLimit(spec.aggregate.keys, most, edges, self.order.window_keys)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """A row is late if none of its windows is open: if it is before the start of all open windows."""
        times = micros(rows[self._time(rows)])
        verdict = pl.select(pl.when(times.is_null()).then(NO_TIME).otherwise(self._late(times, clock)).cast(pl.Int8))
        return verdict.to_series() if (verdict.to_series() != OK).any() else None

    @property
    def hashes_after_combine(self) -> bool:
        return self._port.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        if PANE in rows.columns:
            return self._port.combine(rows)
        times = micros(rows[self._time(rows)])
        if times.null_count():
            rows, times = rows.filter(times.is_not_null()), times.drop_nulls()
        earliest = [] if self._cap is None else [times.alias(EARLIEST)]
        panes = pl.Series(PANE, self._grid.panes(times.to_numpy()))
        return self._port.combine(rows.with_columns(panes, *earliest))

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        return without_hash(self.step_with_hash(inputs[0], clock, state, first))

    def step_with_hash(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        delta = Delta() if rows is None or rows.is_empty() else self._changes(rows, clock, state)
        return replace(delta, evicted=self.evict(clock, state))

    def _changes(self, rows: pl.DataFrame, clock: Clock, state: State) -> Delta:
        groups, errors = self.groups(rows, clock, state)
        return Delta(None if groups is None else groups.changes(with_hash=True), errors)

    def groups(self, rows: pl.DataFrame, clock: Clock, state: State) -> tuple[GroupStep | None, list[RowError]]:
        """The step of the groups (key and window) of the rows, and errors for rejected groups."""
        errors: list[RowError] = []
        rows = self._windows(rows, watermarks_for(clock, self.spec.delayed))
        if self._cap is not None:
            rows, errors = self._cap.admit(rows, state)
        parts = self._partial.parts(rows)
        return (None if parts.groups.is_empty() else GroupStep(self.plan, parts, clock, state)), errors

    def evict(self, clock: Clock, state: State) -> int:
        """Evicts the windows that are closed for good, and returns the number of groups."""
        closed = self.evict_closed(clock, state)
        return 0 if closed is None else closed.height

    def evict_closed(self, clock: Clock, state: State) -> pl.DataFrame | None:
        """Evicts the windows that are closed for good, and returns their groups."""
        watermark = self.watermark(clock.watermarks)
        if watermark is None:
            return None
        limit = None if watermark == INFINITE else self.order.limit(int(watermark) - self.spec.lateness)
        for number, values in enumerate(self.plan.values):
            bag = state.find_table(table_name(number), value_ident(self.plan, number)) if values.stored else None
            if bag is not None:
                bag.evict_below(limit)
        if self._cap is not None:
            self._cap.evict_below(limit, state)
        groups = state.find_table("groups", self.spec.aggregate.keys)
        return None if groups is None else groups.evict_below(limit)

    def content(self, state: State) -> pl.DataFrame | None:
        """The results of the windows that are not evicted."""
        return groups_content(self.plan, state)

    def watermark(self, watermarks: Watermarks) -> int | str | None:
        """The watermark in microseconds, or INFINITE."""
        watermark = None if self.spec.watermark is None else watermarks.get(self.spec.watermark)
        return INFINITE if watermark == INFINITE else watermark_micros(watermark, self.spec.window.type == "date")

    def _time(self, rows: pl.DataFrame) -> str:
        name, type = self.spec.window.time, self.spec.window.type
        if rows.schema[name] != polars_type(type):
            raise TypeError(f"{name} is declared as {type}, but its values are {rows.schema[name]}")
        return name

    def _late(self, times: pl.Series, clock: Clock) -> pl.Series:
        watermark = self.watermark(watermarks_for(clock, self.spec.delayed))
        if watermark is None:
            return pl.repeat(OK, len(times), eager=True)
        covered = pl.Series(self._grid.covered(times.fill_null(0).to_numpy()))
        if watermark == INFINITE:
            return covered.cast(pl.Int8) * LATE
        start, _ = self._grid.earliest_open(int(watermark) - self.spec.lateness)
        return (covered & (times < start)).cast(pl.Int8) * LATE

    def _windows(self, rows: pl.DataFrame, watermarks: Watermarks) -> pl.DataFrame:
        """Partial results of panes as partial results of open windows."""
        watermark, window = self.watermark(watermarks), self.spec.window
        if watermark == INFINITE:
            rows, watermark = rows.clear(), None
        after = None if watermark is None else int(watermark) - self.spec.lateness
        if self._hops.pays(rows.height):
            rows = self._hops.sum_panes(rows, PANE)
            windows = self._grid.hops(rows[PANE].to_numpy(), after)
        else:
            windows = self._grid.windows(rows[PANE].to_numpy(), after)
        if len(windows.row) != rows.height or self._grid.kind != "tumble":
            rows = rows[windows.row]
        order_keys = self.order.keys(windows.end_number, rows[HASH].to_numpy())
        stamps = [(window.start, windows.start), (window.end, windows.end)]
        dtype = pl.Datetime("us", None if window.type == "timestamp_ntz" else "UTC")
        times = [pl.Series(name, values).cast(dtype) for name, values in stamps]
        return rows.drop(PANE).with_columns(pl.Series(HASH, order_keys), *times)
