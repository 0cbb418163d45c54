"""DISTINCT: each row once, as long as it is in the input at all."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import DistinctSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State
from tidegate.kernels.frames import consolidated, nonempty, normalised, types_of
from tidegate.kernels.lines import since
from tidegate.kernels.over import filed, forget
from tidegate.kernels.weights import there, weighed


class Distinct(NeverLate):
    """Keeps how often each row is there; where nothing ever retracts, only that it was seen."""

    def __init__(self, spec: DistinctSpec) -> None:
        self._spec = spec
        self._ident = list(spec.columns)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidated(normalised(rows, self._ident), [HASH, *self._ident])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        over = self._spec.evict_before
        ended = forget("rows", self._ident, over, since(clock, self._spec.delayed), state)
        dropped = 0 if ended is None else ended.height
        if inputs[0] is None:
            return Delta(evicted=dropped)
        rows = filed(self.combine(0, inputs[0]), over)
        changes = self._appended(rows, state) if self._spec.append_only else self._changed(rows, state)
        return Delta(changes, evicted=dropped)

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.stored("rows", self._ident)
        if table is None:
            return None
        rows = table.scan()
        counted = rows if self._spec.append_only else rows.filter(pl.col(WEIGHT) > 0)
        return counted.select(*self._ident, pl.lit(1, pl.Int64).alias(WEIGHT))

    def _appended(self, rows: pl.DataFrame, state: State) -> pl.DataFrame | None:
        table = state.table("rows", types_of(rows, self._ident), self._ident)
        known, _ = table.match(rows)
        fresh = rows.filter(pl.Series(~there(rows.height, known)))
        table.write(fresh, grown=fresh.height)
        return nonempty(fresh.select(*self._ident, pl.lit(1, pl.Int64).alias(WEIGHT)))

    def _changed(self, rows: pl.DataFrame, state: State) -> pl.DataFrame | None:
        old, new = weighed(rows, state.table("rows", {**types_of(rows, self._ident), WEIGHT: pl.Int64()}, self._ident))
        sign = ((new > 0).cast(pl.Int64) - (old > 0).cast(pl.Int64)).alias(WEIGHT)
        changed = rows.select(self._ident).with_columns(sign).filter(pl.col(WEIGHT) != 0)
        return nonempty(changed.sort(WEIGHT))
