"""The gate of an EMIT: changes wait in it until their rows are due."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import GateSpec
from tidegate.kernels.api import LATE, NO_TIME, OK, Clock, Delta, State, Table
from tidegate.kernels.frames import consolidated, nonempty, normalised, types_of
from tidegate.kernels.lines import Lines, all_pass, line_key, order_key, since
from tidegate.kernels.weights import weighed

KEY = "__k"
"""The hash a row came with. Held rows are filed by their time, and by this within."""

_TABLE = "held"


class Gate:
    """Holds the difference between what is true and what has left. Held changes of one row add up, so of a result that
    changed many times only the last is there to leave."""

    def __init__(self, spec: GateSpec) -> None:
        self.spec = spec
        self._columns = list(spec.columns)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return verdict(self.spec, rows, clock)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidated(normalised(rows, self._columns), self._columns, [HASH])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        rows = None if inputs[0] is None else self.combine(0, inputs[0])
        return self.passed(rows, clock, state)

    def content(self, state: State) -> pl.DataFrame | None:
        """Nothing is known here of what has left: it is what came less what is `held`."""
        return None

    def held(self, state: State) -> pl.DataFrame | None:
        """The changes that have not left."""
        table = state.stored(_TABLE, self._columns)
        return None if table is None else table.scan().select(*self._columns, WEIGHT)

    def passed(self, rows: pl.DataFrame | None, clock: Clock, state: State) -> Delta:
        """What leaves in this step. `rows` are consolidated and carry a hash."""
        table = self._table(rows, state)
        if table is None:
            return Delta()
        tick = self._ticks(clock)
        leaving = self._let_go(table, clock, tick)
        if rows is not None and rows.height:
            goes = self._due(rows, clock, tick)
            leaving.append(rows.filter(goes).select(*self._columns, WEIGHT))
            self._hold(rows.filter(~goes), table)
        released = consolidated(pl.concat(leaving), self._columns).sort(WEIGHT) if leaving else None
        return Delta(None if released is None else nonempty(released), timer_us=self._wake(table, clock))

    def _table(self, rows: pl.DataFrame | None, state: State) -> Table | None:
        if rows is None:
            return state.stored(_TABLE, self._columns)
        types = {**types_of(rows, self._columns), WEIGHT: pl.Int64()}
        return state.table(_TABLE, types, self._columns, within=KEY)

    def _due(self, rows: pl.DataFrame, clock: Clock, tick: bool) -> pl.Series:
        """Which rows may leave now."""
        if tick or not self.spec.release:
            return pl.repeat(tick, rows.height, dtype=pl.Boolean, eager=True)
        now = all_pass(self.spec.release, rows, clock.watermarks)
        return now if self.spec.every is None else now & ~all_pass(self.spec.release, rows, clock.previous_watermarks)

    def _let_go(self, table: Table, clock: Clock, tick: bool) -> list[pl.DataFrame]:
        """Held rows that may leave: all at a tick, else some of those that are filed below the line."""
        limit = None if tick else self._limit(table, clock.watermarks)
        if (limit is None and not tick) or not table.count:
            return []
        near = table.between(None, limit)
        goes = self._due(near, clock, tick)
        if goes.all():
            table.evict_below(limit)
        else:
            table.write(None, near.filter(goes), -int(goes.sum()))
        return [near.filter(goes).select(*self._columns, WEIGHT)]

    def _limit(self, table: Table, lines: Lines) -> int | None:
        if not self.spec.release:
            return None
        test = self.spec.release[0]
        return line_key(lines.get(test.watermark), table.schema[test.column])

    def _hold(self, rows: pl.DataFrame, table: Table) -> None:
        if rows.is_empty():
            return
        release = self.spec.release
        filed = order_key(rows[release[0].column]) if release else pl.repeat(0, rows.height, dtype=pl.Int64, eager=True)
        weighed(rows.with_columns(rows[HASH].alias(KEY), filed.alias(HASH)), table)

    def _ticks(self, clock: Clock) -> bool:
        """Whether a multiple of `every` was reached since the step before."""
        every = self.spec.every
        return (
            every is not None
            and clock.previous_time_us > 0
            and clock.time_us // every > clock.previous_time_us // every
        )

    def _wake(self, table: Table, clock: Clock) -> int | None:
        every = self.spec.every
        return None if every is None or not table.count else (clock.time_us // every + 1) * every


def verdict(spec: GateSpec, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
    """What a gate says of rows as they come: one without a time would wait for ever."""
    late = all_pass(spec.late, rows, since(clock, spec.delayed)) if spec.late else None
    missing = [rows[test.column].is_null() for test in spec.release] if spec.every is None else []
    found = pl.repeat(OK, rows.height, dtype=pl.Int8, eager=True)
    if late is not None:
        found = found.set(late, LATE)
    for mask in missing:
        found = found.set(mask, NO_TIME)
    return found if (found != OK).any() else None
