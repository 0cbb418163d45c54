"""DISTINCT, EXCEPT and INTERSECT: whole rows and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import DistinctSpec, SetOpSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State
from tidegate.kernels.evicting import StateTable, evict_passed
from tidegate.kernels.frames import add_weights, align, consolidate, nonempty, normalise, row_mask, types_of
from tidegate.kernels.watermarks import with_eviction_order


class Distinct(NeverLate):
    """Stores the weight of each row; for append-only input only that it was seen."""

    def __init__(self, spec: DistinctSpec) -> None:
        self._spec = spec
        self._ident = list(spec.columns)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidate(normalise(rows, self._ident), [HASH, *self._ident])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        over = self._spec.evict_before
        changes = None
        if inputs[0] is not None:
            rows = with_eviction_order(self.combine(0, inputs[0]), over[0].column if over else None)
            changes = self._appended(rows, state) if self._spec.append_only else self._changed(rows, state)
        return Delta(changes, evicted=evict_passed(self.tables(), (over,), clock.watermarks, state))

    def tables(self) -> list[StateTable]:
        return [StateTable("rows", self._ident)]

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("rows", self._ident)
        if table is None:
            return None
        rows = table.scan()
        counted = rows if self._spec.append_only else rows.filter(pl.col(WEIGHT) > 0)
        return counted.select(*self._ident, pl.lit(1, pl.Int64).alias(WEIGHT))

    def _appended(self, rows: pl.DataFrame, state: State) -> pl.DataFrame | None:
        table = state.table("rows", types_of(rows, self._ident), self._ident)
        known, _ = table.match(rows)
        fresh = rows.filter(pl.Series(~row_mask(rows.height, known)))
        table.write(fresh, grown=fresh.height)
        return nonempty(fresh.select(*self._ident, pl.lit(1, pl.Int64).alias(WEIGHT)))

    def _changed(self, rows: pl.DataFrame, state: State) -> pl.DataFrame | None:
        old, new = add_weights(
            rows, state.table("rows", {**types_of(rows, self._ident), WEIGHT: pl.Int64()}, self._ident)
        )
        sign = ((new > 0).cast(pl.Int64) - (old > 0).cast(pl.Int64)).alias(WEIGHT)
        changed = rows.select(self._ident).with_columns(sign).filter(pl.col(WEIGHT) != 0)
        return nonempty(changed.sort(WEIGHT))


_SIDES = ("__left", "__right")

Rule = Callable[[pl.Series, pl.Series], pl.Series]
"""How often a row is in the result, by how often it is on the left and on the right."""

RULES: dict[tuple[str, bool], Rule] = {
    ("except", True): lambda left, right: (left.clip(0) - right.clip(0)).clip(0),
    ("except", False): lambda left, right: ((left > 0) & (right <= 0)).cast(pl.Int64),
    ("intersect", True): lambda left, right: left.zip_with(left < right, right).clip(0),
    ("intersect", False): lambda left, right: ((left > 0) & (right > 0)).cast(pl.Int64),
}


class SetOp(NeverLate):
    """Keeps how often each row is on either side."""

    def __init__(self, spec: SetOpSpec) -> None:
        self._ident = list(spec.columns)
        self._rule = RULES[spec.kind.lower(), spec.all]

    def tables(self) -> list[StateTable]:
        return [StateTable("rows", self._ident)]

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidate(normalise(rows, self._ident), [HASH, *self._ident])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        changes = [
            (side, self.combine(port, rows))
            for port, (side, rows) in enumerate(zip(_SIDES, inputs, strict=True))
            if rows is not None
        ]
        if not changes:
            return Delta()
        rows = self._both_sides(changes)
        table = state.table("rows", {**types_of(rows, self._ident), **dict.fromkeys(_SIDES, pl.Int64())}, self._ident)
        indexes, stored = table.match(rows)
        old = align(rows.height, indexes, stored.select(_SIDES)).with_columns(pl.all().fill_null(0))
        new = pl.DataFrame([old[side] + rows[side] for side in _SIDES])
        after = rows.select(HASH, *self._ident).with_columns(new)
        stays = pl.any_horizontal(pl.col(_SIDES) != 0)
        upserts = after.filter(stays)
        table.write(upserts, after.filter(~stays), upserts.height - len(indexes))
        return Delta(self._difference(rows, old, new))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("rows", self._ident)
        if table is None:
            return None
        rows = table.scan()
        weight = self._rule(*(rows[side] for side in _SIDES))
        return rows.select(self._ident).with_columns(weight.alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)

    def _both_sides(self, changes: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
        """Changes of both sides as one row per identity with two weights."""
        tagged = [
            rows.with_columns((pl.col(WEIGHT) * (side == name)).alias(side) for side in _SIDES)
            for name, rows in changes
        ]
        return pl.concat(tagged).group_by(HASH, *self._ident).agg(pl.col(_SIDES).sum())

    def _difference(self, rows: pl.DataFrame, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame | None:
        before, after = (self._rule(side[_SIDES[0]], side[_SIDES[1]]) for side in (old, new))
        changed = rows.select(self._ident).with_columns((after - before).alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)
        return nonempty(changed.sort(WEIGHT))
