"""GROUP BY sessions.

A row that moves to another session is new there, so FIRST and LAST go by the arrival of rows: FIRST(x) is the x of the
row that arrived first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AggregateCall, AggregateSpec, WindowAggregateSpec
from tidegate.kernels import aggregates
from tidegate.kernels.aggregate import groups_content, without_hash
from tidegate.kernels.aggregates.bags import evict_values
from tidegate.kernels.aggregates.function import Best
from tidegate.kernels.aggregates.partial import Partial
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.step import GroupStep
from tidegate.kernels.api import INFINITE, NO_TIME, OK, Clock, Delta, RowError, State, Table
from tidegate.kernels.frames import align, find_rows, nonempty
from tidegate.kernels.group_limit import SessionLimit
from tidegate.kernels.session_points import (
    END,
    FIRST_AT,
    KEY,
    KNOWN,
    LAST_AT,
    MIX,
    START,
    TIME,
    Extents,
    SessionPoints,
    columns_of,
    mix_hashes,
    points_table,
    replace_points,
    same_points,
)
from tidegate.kernels.watermarks import Watermarks, watermark_micros, watermarks_for


def by_row(spec: AggregateSpec) -> AggregateSpec:
    """FIRST and LAST as MIN_BY and MAX_BY of the arrival of a row."""
    return replace(spec, calls=tuple(_by_row(number, call) for number, call in enumerate(spec.calls)))


def with_arrivals(spec: AggregateSpec, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns that the calls of `by_row` need."""
    columns: list[pl.Expr] = []
    for number, call in enumerate(spec.calls):
        by_row = _by_row(number, call)
        if by_row is not call:
            counts = pl.col(call.filter) if call.filter else pl.lit(True)
            required = [pl.col(name).is_not_null() for name in aggregates.function(call).required]
            columns.append(pl.all_horizontal(counts, *required).alias(str(by_row.filter)))
            mixed = pl.col(aggregates.hash_name(call.args)) ^ (pl.col(by_row.args[1]) * MIX)
            columns.append(mixed.alias(aggregates.hash_name(by_row.args)))
    return rows.with_columns(columns)


def _by_row(number: int, call: AggregateCall) -> AggregateCall:
    function = aggregates.function(call)
    if not isinstance(function, Best) or not function.arrival:
        return call
    first = not function.order()[0][1]
    args = (call.args[0], FIRST_AT if first else LAST_AT)
    types = (call.arg_types[0], "bigint")
    name = "min_by" if first else "max_by"
    return replace(call, func=name, args=args, arg_types=types, filter=f"__counts{number}", options=())


_NEVER, _ALWAYS = -(1 << 61), 1 << 61


class SessionAggregate:
    """Keeps the rows of open sessions. A step recomputes the sessions of the keys it touches, and passes the rows that
    arrived, were retracted or changed sessions to an aggregate over (key, start)."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._spec = spec
        window, inner = spec.window, spec.aggregate
        self._partition = tuple(name for name in inner.keys if name not in (window.start, window.end))
        self._aggregate = replace(inner, keys=(*self._partition, window.start), append_only=False)
        self._plan = Plan(by_row(self._aggregate))
        self._partial = Partial(self._plan)
        gap = window.size.micros
        self._points = SessionPoints(self._partition, window.time, gap, aggregates.ordered(inner))
        self._extents = Extents(self._partition, gap, spec.lateness)
        self._room = None if inner.max_groups is None else SessionLimit(self._partition, inner.max_groups)
        self._dtype = pl.Datetime("us", None if window.type == "timestamp_ntz" else "UTC")

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """Lateness depends on the existing sessions, so only NULL times are rejected here."""
        missing = rows[self._spec.window.time].is_null()
        return (missing.cast(pl.Int8) * (NO_TIME - OK) + OK).cast(pl.Int8) if missing.any() else None

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._points.combine(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        return without_hash(self.step_with_hash(inputs[0], clock, state, first))

    def step_with_hash(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        watermark = self._watermark(watermarks_for(clock, self._spec.delayed))
        due = self._extents.due(watermark, state)
        self._extents.evict(watermark, state)
        net = None if rows is None or rows.is_empty() else self._points.net(rows, clock)
        if net is None and due.is_empty():
            return Delta()
        return self._step_keys(net, due, watermark, clock, state)

    def content(self, state: State) -> pl.DataFrame | None:
        """The results of the open sessions; closed ones are evicted."""
        groups, ends = groups_content(self._plan, state), self._extents.ends(state)
        if groups is None or ends is None:
            return None
        keys = self._aggregate.keys
        window = self._spec.window
        known = ends.select(*self._partition, self._time(START, window.start), self._time(END, window.end))
        return self._shaped(groups.join(known, on=keys, nulls_equal=True))

    def _step_keys(self, net: pl.DataFrame | None, due: pl.Series, watermark: int, clock: Clock, state: State) -> Delta:
        """The step of the keys that have rows or sessions that close."""
        table = self._table(net, state)
        stored = table.groups(due if net is None else pl.concat([net[HASH], due]))
        keys = pl.concat([part.select(HASH, *self._partition) for part in (stored, net) if part is not None]).unique()
        old = self._points.in_sessions(self._points.with_key(stored, keys))
        over = (old[END] + self._spec.lateness) <= watermark
        closed = self._extents.close(old.filter(over), keys[HASH].unique(), watermark, state)
        before = old.filter(~over)
        net = self._points.with_key(stored.clear() if net is None else net, keys)
        late_rows = self._late_rows(net, before, self._points.with_key(closed, keys), watermark)
        accepted, errors = net.filter(~late_rows), list[RowError]()
        if self._room is not None:
            accepted, errors = self._room.admit(accepted, old, before, state)
        after = self._points.apply(before, accepted)
        alone = self._alone(after, watermark)
        late = [net.filter(late_rows), after.filter(alone)]
        after = after.filter(~alone)
        replace_points(old, after.select(old.columns), table)
        self._extents.move(before, after, state)
        if self._room is not None:
            self._room.count(old, after, state)
        dropped = self._forget(old.filter(over), state)
        changes = self._changes(before, after, clock, state)
        return Delta(changes, errors, self._late(late), evicted=dropped)

    def _table(self, net: pl.DataFrame | None, state: State) -> Table:
        """The stored points. Without new rows, a session is due, so that something is stored."""
        if net is not None:
            return points_table(net, state)
        table = state.find_table("points", None)
        assert table is not None
        return table

    def _late_rows(self, net: pl.DataFrame, before: pl.DataFrame, closed: pl.DataFrame, watermark: int) -> pl.Series:
        """Rows that would reopen a closed session, retractions of rows that are not stored any more, and stale rows
        outside of the open sessions."""
        gap = self._spec.window.size.micros
        numbered = net.with_row_index("__row")
        times = numbered.select("__row", KEY, TIME)
        near = times.join(closed.select(KEY, START, END), on=KEY)
        reopens = near.filter(pl.col(TIME) > pl.col(START) - gap, pl.col(TIME) < pl.col(END))["__row"]
        stale = times.filter(self._extents.stale(watermark))
        open_ = stale.join(before.select(KEY, START, END).unique(), on=KEY)
        inside = open_.filter(pl.col(TIME) >= pl.col(START), pl.col(TIME) < pl.col(END))["__row"]
        missing = pl.Series(same_points(net, before) < 0, dtype=pl.Boolean)
        rows = numbered["__row"]
        outside = rows.is_in(stale["__row"].implode()) & ~rows.is_in(inside.implode())
        return (missing & (net[WEIGHT] < 0)) | rows.is_in(reopens.implode()) | outside

    def _alone(self, after: pl.DataFrame, watermark: int) -> pl.Series:
        """A mask of the points in a session that is closed on arrival."""
        joins = pl.col(KNOWN).any().over(KEY, START)
        return after.select((pl.col(END) + self._spec.lateness <= watermark) & ~joins).to_series()

    def _forget(self, over: pl.DataFrame, state: State) -> int:
        """Evicts the groups of closed sessions, and returns their number."""
        groups = state.find_table("groups", self._aggregate.keys)
        if groups is None or over.is_empty():
            return 0
        evicted = self._sessions(over).drop(self._spec.window.end)
        groups.write(None, evicted, -evicted.height)
        evict_values(self._plan, evicted, state)
        return evicted.height

    def _changes(self, before: pl.DataFrame, after: pl.DataFrame, clock: Clock, state: State) -> pl.DataFrame | None:
        shape = [name for name in before.columns if name not in (TIME, KEY, END)]
        both = pl.concat([before.select(shape).with_columns(-pl.col(WEIGHT)), after.select(shape)])
        by = [name for name in shape if name != WEIGHT]
        moved = both.group_by(by).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
        if moved.is_empty():
            return None
        parts = self._partial.parts(with_arrivals(self._aggregate, self._with_order_key(moved)))
        ends = [self._ends(parts.groups, points) for points in (before, after)]
        changes = GroupStep(self._plan, parts, clock, state).changes(with_hash=True, extra=(ends[0], ends[1]))
        return None if changes is None else self._shaped(changes)

    def _ends(self, groups: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
        """The end of the session of each group."""
        sessions = self._sessions(points)
        indexes = find_rows(sessions, groups, self._aggregate.keys)
        mine = indexes >= 0
        return align(groups.height, indexes[mine], sessions.filter(pl.Series(mine)).select(self._spec.window.end))

    def _sessions(self, points: pl.DataFrame) -> pl.DataFrame:
        each = self._with_order_key(self._extents.each(points))
        return each.select(HASH, *self._aggregate.keys, self._time(END, self._spec.window.end))

    def _with_order_key(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the start column of their session, hashed by key and start."""
        start = rows[START].cast(self._dtype).alias(self._spec.window.start)
        return rows.with_columns(mix_hashes(rows[HASH], rows[START]), start)

    def _shaped(self, rows: pl.DataFrame) -> pl.DataFrame:
        calls = [call.out for call in self._aggregate.calls]
        hashes = [HASH] if HASH in rows.columns else []
        return rows.select(*self._spec.aggregate.keys, *calls, *hashes, WEIGHT)

    def _time(self, column: str, name: str) -> pl.Expr:
        return pl.col(column).cast(self._dtype).alias(name)

    def _late(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        return nonempty(pl.concat([rows.select(*columns_of(rows), WEIGHT) for rows in frames], how="diagonal"))

    def _watermark(self, watermarks: Watermarks) -> int:
        watermark = None if self._spec.watermark is None else watermarks.get(self._spec.watermark)
        if watermark == INFINITE:
            return _ALWAYS
        micros = watermark_micros(watermark, self._spec.window.type == "date")
        return _NEVER if micros is None else micros
