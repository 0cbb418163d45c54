"""EXCEPT and INTERSECT of two inputs by whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import SetOpSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State
from tidegate.kernels.frames import aligned, consolidated, nonempty, normalised, types_of

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

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return consolidated(normalised(rows, self._ident), [HASH, *self._ident])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        given = [
            (side, self.combine(port, rows))
            for port, (side, rows) in enumerate(zip(_SIDES, inputs, strict=True))
            if rows is not None
        ]
        if not given:
            return Delta()
        rows = self._beside(given)
        table = state.table("rows", {**types_of(rows, self._ident), **dict.fromkeys(_SIDES, pl.Int64())}, self._ident)
        places, found = table.match(rows)
        old = aligned(rows.height, places, found.select(_SIDES)).with_columns(pl.all().fill_null(0))
        new = pl.DataFrame([old[side] + rows[side] for side in _SIDES])
        after = rows.select(HASH, *self._ident).with_columns(new)
        stays = pl.any_horizontal(pl.col(_SIDES) != 0)
        upserts = after.filter(stays)
        table.write(upserts, after.filter(~stays), upserts.height - len(places))
        return Delta(self._difference(rows, old, new))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.stored("rows", self._ident)
        if table is None:
            return None
        rows = table.scan()
        weight = self._rule(*(rows[side] for side in _SIDES))
        return rows.select(self._ident).with_columns(weight.alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)

    def _beside(self, given: Sequence[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
        """Changes of both sides as one row per identity with two weights."""
        tagged = [
            rows.with_columns((pl.col(WEIGHT) * (side == name)).alias(side) for side in _SIDES) for name, rows in given
        ]
        return pl.concat(tagged).group_by(HASH, *self._ident).agg(pl.col(_SIDES).sum())

    def _difference(self, rows: pl.DataFrame, old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame | None:
        before, after = (self._rule(side[_SIDES[0]], side[_SIDES[1]]) for side in (old, new))
        changed = rows.select(self._ident).with_columns((after - before).alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)
        return nonempty(changed.sort(WEIGHT))
