"""An aggregate and the gate its results wait at, as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.kernels.aggregate import Aggregate
from tidegate.kernels.aggregates.bags import forget_values
from tidegate.kernels.api import HASH, WEIGHT, Clock, Delta, State
from tidegate.kernels.frames import consolidated
from tidegate.kernels.gate import Gate, verdict
from tidegate.kernels.lines import Lines, all_pass, filed_below, filed_by, since
from tidegate.kernels.specs import AggregateSpec, GatedSpec
from tidegate.kernels.windowed import make_windowed


class Gated:
    """What the aggregate changes goes straight to the gate; both keep their tables in one state."""

    def __init__(self, spec: GatedSpec) -> None:
        self._gate = Gate(spec.gate)
        inner = spec.inner
        self._inner = DatedGroups(inner, spec) if isinstance(inner, AggregateSpec) else make_windowed(inner)

    def judge(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return self._inner.judge(port, rows, clock)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._inner.combine(port, rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        inner = self._inner.filed_step(inputs[0], clock, state, first)
        outer = self._gate.passed(inner.rows, clock, state)
        return replace(inner, rows=outer.rows, wake_us=outer.wake_us)

    def content(self, state: State) -> pl.DataFrame | None:
        """What has left: the results as they are, without what is held. Of results that are forgotten only those are
        known that a held correction takes back."""
        known, held = self._inner.content(state), self._gate.held(state)
        if held is None:
            return known
        taken = held.with_columns(-pl.col(WEIGHT))
        parts = [taken] if known is None else [known.select(taken.columns), taken]
        return consolidated(pl.concat(parts), taken.columns[:-1]).filter(pl.col(WEIGHT) > 0)


class DatedGroups(Aggregate):
    """Groups whose key says when they end. Where results wait, groups that no row can reach any more are forgotten, so
    they are filed by that key."""

    def __init__(self, spec: AggregateSpec, gated: GatedSpec) -> None:
        super().__init__(spec)
        self._gate = gated.gate
        self._late = gated.gate.late if gated.gate.every is None else ()

    def judge(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return verdict(self._gate, rows, clock)

    def filed_step(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        if rows is not None and self._late:
            rows = rows.with_columns(filed_by(rows[self._late[0].column], rows[HASH]))
        dropped = self._forget(since(clock, self._gate.delayed), state) if self._late else 0
        return replace(super().filed_step(rows, clock, state, first), dropped=dropped)

    def _forget(self, lines: Lines, state: State) -> int:
        """Drops the groups below every line that rows are held against: none of them is touched in this step."""
        limit = filed_below(lines.get(self._late[0].line))
        table = state.stored("groups", self.spec.keys)
        if limit is None or table is None:
            return 0
        near = table.between(None, limit)
        ended = near.filter(all_pass(self._late, near, lines))
        if ended.height:
            table.write(None, ended, -ended.height)
            forget_values(self.plan, ended, state)
        return ended.height
