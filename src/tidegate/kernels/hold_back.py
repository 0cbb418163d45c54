"""The reorder buffer (hold-back): rows wait until a watermark reaches them, and then enter as if they had just
arrived."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.ir.specs import HoldBackSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State, Table
from tidegate.kernels.frames import nonempty
from tidegate.kernels.watermarks import HIGHEST, Watermarks, order_key, passes, watermark_key

_STEP, _NUMBER = "__step", "__number"
_IDENT = [_STEP, _NUMBER]


class HoldBack(NeverLate):
    """Every row is stored with its arrival. Rows released in one step keep the order of arrival: those that have waited
    get positions below zero. They are stored in the order of the first test's column."""

    def __init__(self, spec: HoldBackSpec) -> None:
        self._spec = spec

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        free = self._freed(clock, state)
        if inputs[0] is not None and inputs[0].height:
            rows = inputs[0].sort(self._order(inputs[0]))
            released = self._released(rows, clock.watermarks)
            free.append(rows.filter(released).select(self._out(rows)))
            self._hold(rows.filter(~released), clock, state)
        return Delta(nonempty(pl.concat(free).sort(WEIGHT, maintain_order=True)) if free else None)

    def content(self, state: State) -> pl.DataFrame | None:
        """None: the released rows are the input without `held_rows`."""
        return None

    def held_rows(self, state: State) -> pl.DataFrame | None:
        """The rows that wait."""
        table = state.find_table("held", _IDENT)
        return None if table is None else table.scan().select(*self._spec.columns, WEIGHT)

    def _released(self, rows: pl.DataFrame, watermarks: Watermarks) -> pl.Series:
        """A mask of the rows that pass every test; NULL passes."""
        released = pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
        for test in self._spec.tests:
            released = released & (passes(test, rows, watermarks) | rows[test.column].is_null())
        return released

    def _freed(self, clock: Clock, state: State) -> list[pl.DataFrame]:
        """Held rows that the watermarks have reached, in the order of arrival."""
        table = state.find_table("held", _IDENT)
        if table is None or not table.count:
            return []
        near = table.between(None, self._limit(table, clock.watermarks))
        released = self._released(near, clock.watermarks)
        if not released.any():
            return []
        free = near.filter(released)
        table.write(None, free, -free.height)
        position = (pl.int_range(free.height, dtype=pl.Int64) - free.height).alias(SEQ)
        ordered = free.sort(_IDENT).with_columns([position] if SEQ in free.columns else [])
        return [ordered.select(self._out(free))]

    def _limit(self, table: Table, watermarks: Watermarks) -> int | None:
        """An upper bound (exclusive) of the order keys of rows that can pass the first test. NULL has the lowest
        key."""
        test = self._spec.tests[0]
        limit = watermark_key(watermarks.get(test.watermark), table.schema[test.column])
        return -HIGHEST if limit is None else limit

    def _hold(self, rows: pl.DataFrame, clock: Clock, state: State) -> None:
        if rows.is_empty():
            return
        column = rows[self._spec.tests[0].column]
        order_keys = order_key(column).set(column.is_null(), -HIGHEST - 1)
        held = rows.with_columns(
            order_keys.alias(HASH),
            pl.lit(clock.step, pl.Int64).alias(_STEP),
            pl.int_range(rows.height, dtype=pl.Int64).alias(_NUMBER),
        )
        types = {name: held.schema[name] for name in held.columns if name != HASH}
        state.table("held", types, _IDENT).write(held, grown=held.height)

    def _out(self, rows: pl.DataFrame) -> list[str]:
        return [*self._spec.columns, WEIGHT, *([SEQ] if SEQ in rows.columns else [])]

    def _order(self, rows: pl.DataFrame) -> list[str]:
        return [SEQ, WEIGHT] if SEQ in rows.columns else [*self._spec.columns, WEIGHT]
