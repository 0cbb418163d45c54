"""The emit gate: holds changes of rows until a watermark or the clock releases them; by itself, or after an aggregate
as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AggregateSpec, GatedAggregateSpec, GateSpec, WindowAggregateSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.aggregate import Aggregate
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.step import no_entries, results
from tidegate.kernels.api import LATE, NO_TIME, OK, Clock, Delta, Grouping, RowError, State, Table
from tidegate.kernels.frames import add_weights, consolidate, nonempty, normalise, types_of
from tidegate.kernels.watermarks import Watermarks, all_pass, order_key, watermark_key, watermarks_for
from tidegate.kernels.window_aggregate import WindowAggregate, make_windowed

KEY = "__k"
"""The hash of a row. Held rows are stored in the order of their release time, and of this within."""

_TABLE = "held"
_LAST = "__last"


class Gate:
    """Holds the difference between the current rows and those emitted. Changes of one row add up, so of a result that
    changed many times only the last version is emitted."""

    def __init__(self, spec: GateSpec) -> None:
        self.spec = spec
        self._columns = list(spec.columns)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return classify_late(self.spec, rows, clock)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidate(normalise(rows, self._columns), self._columns, [HASH])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        rows = None if inputs[0] is None else self.combine(0, inputs[0])
        return self.release(rows, clock, state)

    def content(self, state: State) -> pl.DataFrame | None:
        """None: the emitted rows are the input without `held_rows`."""
        return None

    def held_rows(self, state: State) -> pl.DataFrame | None:
        """The changes that have not left."""
        table = state.find_table(_TABLE, self._columns)
        return None if table is None else table.scan().select(*self._columns, WEIGHT)

    def release(self, rows: pl.DataFrame | None, clock: Clock, state: State) -> Delta:
        """The changes released in this step. `rows` are consolidated and have a hash."""
        table = self._table(rows, state)
        if table is None:
            return Delta()
        tick = self._ticks(clock)
        leaving = self._release_held(table, clock, tick)
        if rows is not None and rows.height:
            due = self._due(rows, clock, tick)
            leaving.append(rows.filter(due).select(*self._columns, WEIGHT))
            self._hold(rows.filter(~due), table)
        released = consolidate(pl.concat(leaving), self._columns).sort(WEIGHT) if leaving else None
        return Delta(None if released is None else nonempty(released), timer_us=self._wake(table, clock))

    def _table(self, rows: pl.DataFrame | None, state: State) -> Table | None:
        if rows is None:
            return state.find_table(_TABLE, self._columns)
        types = {**types_of(rows, self._columns), WEIGHT: pl.Int64()}
        return state.table(_TABLE, types, self._columns, within=KEY)

    def _due(self, rows: pl.DataFrame, clock: Clock, tick: bool) -> pl.Series:
        """A mask of the rows that are released now."""
        if tick or not self.spec.release:
            return pl.repeat(tick, rows.height, dtype=pl.Boolean, eager=True)
        now = all_pass(self.spec.release, rows, clock.watermarks)
        return now if self.spec.every is None else now & ~all_pass(self.spec.release, rows, clock.previous_watermarks)

    def _release_held(self, table: Table, clock: Clock, tick: bool) -> list[pl.DataFrame]:
        """Held rows that may be released: all at a tick, else those stored below the watermark."""
        limit = None if tick else self._limit(table, clock.watermarks)
        if (limit is None and not tick) or not table.count:
            return []
        near = table.between(None, limit)
        due = self._due(near, clock, tick)
        if due.all():
            table.evict_below(limit)
        else:
            table.write(None, near.filter(due), -int(due.sum()))
        return [near.filter(due).select(*self._columns, WEIGHT)]

    def _limit(self, table: Table, watermarks: Watermarks) -> int | None:
        if not self.spec.release:
            return None
        test = self.spec.release[0]
        return watermark_key(watermarks.get(test.watermark), table.schema[test.column])

    def _hold(self, rows: pl.DataFrame, table: Table) -> None:
        if rows.is_empty():
            return
        add_weights(self._for_table(rows), table)

    def _for_table(self, rows: pl.DataFrame) -> pl.DataFrame:
        release = self.spec.release
        order_keys = (
            order_key(rows[release[0].column]) if release else pl.repeat(0, rows.height, dtype=pl.Int64, eager=True)
        )
        return rows.with_columns(rows[HASH].alias(KEY), order_keys.alias(HASH))

    def _ticks(self, clock: Clock) -> bool:
        """True if a multiple of `every` was reached since the previous step."""
        every = self.spec.every
        return (
            every is not None
            and clock.previous_time_us > 0
            and clock.time_us // every > clock.previous_time_us // every
        )

    def _wake(self, table: Table, clock: Clock) -> int | None:
        every = self.spec.every
        return None if every is None or not table.count else (clock.time_us // every + 1) * every


def classify_late(spec: GateSpec, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
    """Classifies the rows of a gate; a row without a time would be held forever."""
    late = all_pass(spec.late, rows, watermarks_for(clock, spec.delayed)) if spec.late else None
    missing = [rows[test.column].is_null() for test in spec.release] if spec.every is None else []
    verdict = pl.repeat(OK, rows.height, dtype=pl.Int8, eager=True)
    if late is not None:
        verdict = verdict.set(late, LATE)
    for mask in missing:
        verdict = verdict.set(mask, NO_TIME)
    return verdict if (verdict != OK).any() else None


class SessionTicks(Gate):
    """EMIT EVERY of sessions. A row that extends a session moves its end: what was emitted of it stays until a tick, or
    until the session as it is now has ended."""

    def __init__(self, spec: GateSpec, sessions: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._end = sessions.window.end
        self._identity = [name for name in sessions.aggregate.keys if name != self._end]

    def release(self, rows: pl.DataFrame | None, clock: Clock, state: State) -> Delta:
        table = self._table(rows, state)
        if table is None or self._ticks(clock):
            return super().release(rows, clock, state)
        held = table.scan()
        changes = held if rows is None or rows.is_empty() else self._changed(held, self._for_table(rows))
        due = self._due(self._with_last_end(changes), clock, tick=False)
        self._replace(held, changes.filter(~due), table)
        leaving = changes.filter(due).select(*self._columns, WEIGHT).sort(WEIGHT)
        return Delta(nonempty(leaving), timer_us=self._wake(table, clock))

    def _changed(self, held: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        both = pl.concat([held, rows.select(held.columns)], how="vertical_relaxed")
        return consolidate(both, self._columns, [KEY, HASH]).select(held.columns)

    def _replace(self, held: pl.DataFrame, by: pl.DataFrame, table: Table) -> None:
        gone = held.join(by, on=self._columns, how="anti", nulls_equal=True)
        changed = by.join(held, on=[*self._columns, WEIGHT], how="anti", nulls_equal=True)
        table.write(changed, gone, by.height - held.height)

    def _with_last_end(self, changes: pl.DataFrame) -> pl.DataFrame:
        """The changes with the end that their session has now, if it is there."""
        now = changes.filter(pl.col(WEIGHT) > 0).group_by(self._identity).agg(pl.col(self._end).max().alias(_LAST))
        joined = changes.join(now, on=self._identity, how="left", nulls_equal=True, maintain_order="left")
        return joined.with_columns(pl.coalesce(_LAST, self._end).alias(self._end)).drop(_LAST)


class GatedAggregate:
    """An aggregate whose changes go straight to its gate. Both keep their tables in one state."""

    def __init__(self, spec: GatedAggregateSpec) -> None:
        inner = spec.inner
        self._gate = _gate_of(spec)
        self._inner = EvictedGroups(inner, spec) if isinstance(inner, AggregateSpec) else make_windowed(inner)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return self._inner.classify(port, rows, clock)

    @property
    def hashes_after_combine(self) -> bool:
        return isinstance(self._inner, Grouping) and self._inner.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._inner.combine(port, rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        inner = self._inner.step_with_hash(inputs[0], clock, state, first)
        outer = self._gate.release(inner.rows, clock, state)
        return replace(inner, rows=outer.rows, timer_us=outer.timer_us)

    def content(self, state: State) -> pl.DataFrame | None:
        """The emitted rows: the current results without the held changes. Of evicted results only those are known that
        a held correction retracts."""
        known, held = self._inner.content(state), self._gate.held_rows(state)
        if held is None:
            return known
        negated = held.with_columns(-pl.col(WEIGHT))
        parts = [negated] if known is None else [known.select(negated.columns), negated]
        return consolidate(pl.concat(parts), negated.columns[:-1]).filter(pl.col(WEIGHT) > 0)


def _gate_of(spec: GatedAggregateSpec) -> Gate:
    inner, gate = spec.inner, spec.gate
    ticks = gate.every is not None and bool(gate.release)
    if ticks and isinstance(inner, WindowAggregateSpec) and inner.window.kind == "session":
        return SessionTicks(gate, inner)
    return Gate(gate)


class EvictedGroups(Aggregate):
    """Groups whose key contains the time at which they end: those that no row can change any more are evicted, so they
    are stored in the order of that key."""

    def __init__(self, spec: AggregateSpec, gated: GatedAggregateSpec) -> None:
        super().__init__(spec)
        self._gate = gated.gate
        if gated.gate.every is None:
            self._evict_before = gated.gate.late

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return classify_late(self._gate, rows, clock)


def closes_once(spec: GatedAggregateSpec) -> bool:
    """True if windows are evicted in the step in which their results are emitted, and need no values stored apart: then
    the evicted groups are all that the results are computed from."""
    inner, gate = spec.inner, spec.gate
    if not isinstance(inner, WindowAggregateSpec) or inner.window.kind == "session" or gate.every is not None:
        return False
    ends = [WatermarkTest(inner.window.end, test.watermark, inclusive=True) for test in gate.release]
    stored = any(values.stored for values in Plan(inner.aggregate).values)
    return len(ends) == 1 and ends == list(gate.release) == list(gate.late) and not stored


class EmitOnClose:
    """EMIT ON WINDOW CLOSE without a gate: rows update the state of their windows, and closed windows are evicted and
    become results."""

    def __init__(self, spec: GatedAggregateSpec) -> None:
        assert isinstance(spec.inner, WindowAggregateSpec)
        self._windows, self._columns = WindowAggregate(spec.inner), spec.gate.columns

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return self._windows.classify(port, rows, clock)

    @property
    def hashes_after_combine(self) -> bool:
        return self._windows.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._windows.combine(port, rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        rows, errors = inputs[0], list[RowError]()
        if rows is not None and rows.height:
            groups, errors = self._windows.groups(rows, clock, state)
            if groups is not None:
                groups.store()
        closed = self._windows.evict_closed(clock, state)
        if closed is None or closed.is_empty():
            return Delta(errors=errors)
        return Delta(self._results(closed), errors, evicted=closed.height)

    def content(self, state: State) -> pl.DataFrame | None:
        """None: emitted windows are evicted."""
        return None

    def _results(self, closed: pl.DataFrame) -> pl.DataFrame | None:
        present = closed.filter(pl.col(WEIGHT) > 0)
        rows = results(self._windows.plan, present, present, no_entries).select(self._columns)
        return rows.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT)) if rows.height else None
