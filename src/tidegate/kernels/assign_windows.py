"""Window table functions TUMBLE, HOP, CUMULATE and SESSION: every row once for each of its windows."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AssignWindowsSpec
from tidegate.ir.windows import WindowSpec
from tidegate.kernels.api import NO_TIME, Clock, Delta, Kernel, State
from tidegate.kernels.frames import consolidate, nonempty
from tidegate.kernels.session_points import END, START, SessionPoints, points_table, replace_points
from tidegate.kernels.watermarks import micros
from tidegate.kernels.windows import Grid


def make_assign(spec: AssignWindowsSpec) -> Kernel:
    return AssignSessions(spec) if spec.window.kind == "session" else AssignWindows(spec)


class AssignWindows:
    """Windows of fixed length. Stateless."""

    def __init__(self, spec: AssignWindowsSpec) -> None:
        self._spec, self._grid = spec, Grid(spec.window)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return _without_time(self._spec.window, rows)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        if inputs[0] is None:
            return Delta()
        rows = inputs[0].filter(pl.col(self._spec.window.time).is_not_null())
        windows = self._grid.windows(micros(rows[self._spec.window.time]).to_numpy())
        each = rows[windows.row].with_columns(pl.Series(START, windows.start), pl.Series(END, windows.end))
        return Delta(_output(self._spec, each))

    def content(self, state: State) -> pl.DataFrame | None:
        """None: past rows are not stored."""
        return None


class AssignSessions:
    """Sessions: a row is retracted and emitted again when the bounds of its session change."""

    def __init__(self, spec: AssignWindowsSpec) -> None:
        self._spec = spec
        self._points = SessionPoints(spec.partition, spec.window.time, spec.window.size.micros)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return _without_time(self._spec.window, rows)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._points.combine(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        if inputs[0] is None or inputs[0].is_empty():
            return Delta()
        net = self._points.net(inputs[0], clock)
        table = points_table(net, state)
        keys = net.select(HASH, *self._spec.partition).unique()
        before = self._points.in_sessions(self._points.with_key(table.groups(net[HASH]), keys))
        after = self._points.apply(before, self._points.with_key(net, keys)).select(before.columns)
        replace_points(before, after, table)
        return Delta(_output(self._spec, pl.concat([before.with_columns(-pl.col(WEIGHT)), after])))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("points", None)
        if table is None:
            return None
        rows = table.scan()
        keys = rows.select(HASH, *self._spec.partition).unique()
        return _output(self._spec, self._points.in_sessions(self._points.with_key(rows, keys)))


def _without_time(window: WindowSpec, rows: pl.DataFrame) -> pl.Series | None:
    missing = rows[window.time].is_null()
    return (missing.cast(pl.Int8) * NO_TIME).cast(pl.Int8) if missing.any() else None


def _output(spec: AssignWindowsSpec, rows: pl.DataFrame) -> pl.DataFrame | None:
    """Rows with the start and end of a window, consolidated."""
    window = spec.window
    dtype = pl.Datetime("us", None if window.type == "timestamp_ntz" else "UTC")
    times = [rows[START].cast(dtype).alias(window.start), rows[END].cast(dtype).alias(window.end)]
    columns = [*spec.columns, window.start, window.end]
    return nonempty(consolidate(rows.with_columns(times).select(*columns, WEIGHT), columns).sort(WEIGHT))
