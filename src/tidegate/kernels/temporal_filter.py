"""The temporal filter: rows that exist while the processing time is within their bounds."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import TemporalFilterSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State
from tidegate.kernels.frames import add_weights, consolidate, nonempty, normalise, types_of

_SINCE, _UNTIL, _KEY = "__since", "__until", "__k"
_ALWAYS, _FOREVER = -(1 << 62), 1 << 62
_FUTURE, _CURRENT = ("to_come", _SINCE), ("there", _UNTIL)


class TemporalFilter(NeverLate):
    """Future rows are in one table, by the time at which they begin; current rows in another, by the time at which they
    end. Past rows are not stored."""

    def __init__(self, spec: TemporalFilterSpec) -> None:
        self._spec = spec
        self._ident = [*spec.columns, _SINCE, _UNTIL]

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        bounds = [name for name in (self._spec.since, self._spec.until) if name is not None]
        return consolidate(normalise(rows, self._spec.columns), [*self._spec.columns, *bounds], [HASH])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        now = clock.time_us
        leaving, entering = (self._due(*table, now, state) for table in (_CURRENT, _FUTURE))
        if inputs[0] is not None and inputs[0].height:
            rows = self._bounded(self.combine(0, inputs[0]))
            self._keep(rows.filter(pl.col(_SINCE) > now, pl.col(_SINCE) < pl.col(_UNTIL)), *_FUTURE, state)
            entering.append(rows.filter(pl.col(_SINCE) <= now))
        entering = [rows.filter(pl.col(_UNTIL) > now) for rows in entering]
        if entering:
            self._keep(consolidate(pl.concat(entering, how="diagonal"), self._ident, [HASH]), *_CURRENT, state)
        parts = [rows.select(*self._spec.columns, WEIGHT) for rows in entering]
        parts += [rows.select(*self._spec.columns, -pl.col(WEIGHT)) for rows in leaving]
        changes = consolidate(pl.concat(parts), self._spec.columns).sort(WEIGHT) if parts else None
        return Delta(None if changes is None else nonempty(changes), timer_us=self._wake(state))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("there", self._ident)
        return None if table is None else consolidate(table.scan(), self._spec.columns)

    def _bounded(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with both bounds in columns of one name each."""
        since, until = self._spec.since, self._spec.until
        return rows.select(
            *self._spec.columns,
            WEIGHT,
            HASH,
            (pl.lit(_ALWAYS) if since is None else pl.col(since).fill_null(_ALWAYS)).cast(pl.Int64).alias(_SINCE),
            (pl.lit(_FOREVER) if until is None else pl.col(until).fill_null(_FOREVER)).cast(pl.Int64).alias(_UNTIL),
        )

    def _due(self, name: str, order_column: str, now: int, state: State) -> list[pl.DataFrame]:
        """Remove and return the rows of a table whose time has come."""
        table = state.find_table(name, self._ident)
        if table is None or (low := table.lowest()) is None or low > now:
            return []
        rows = table.between(None, now + 1).with_columns(pl.col(_KEY).alias(HASH)).drop(_KEY)
        table.evict_below(now + 1)
        return [rows]

    def _keep(self, rows: pl.DataFrame, name: str, order_column: str, state: State) -> None:
        if rows.height:
            types = {**types_of(rows, self._ident), WEIGHT: pl.Int64()}
            table = state.table(name, types, self._ident, within=_KEY)
            add_weights(rows.with_columns(rows[HASH].alias(_KEY), rows[order_column].alias(HASH)), table)

    def _wake(self, state: State) -> int | None:
        """The time at which the next row begins or ends."""
        tables = [
            table for name, _ in (_CURRENT, _FUTURE) if (table := state.find_table(name, self._ident)) is not None
        ]
        times = [low for table in tables if table.count and (low := table.lowest()) is not None]
        return min((time for time in times if time < _FOREVER), default=None)
