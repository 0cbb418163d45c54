"""An aggregate and the gate its results wait at, as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.ir.specs import AggregateSpec, GatedAggregateSpec
from tidegate.kernels.aggregate import Aggregate
from tidegate.kernels.api import Clock, Delta, Grouping, State
from tidegate.kernels.frames import consolidated
from tidegate.kernels.gate import Gate, verdict
from tidegate.kernels.windowed import make_windowed


class Gated:
    """What the aggregate changes goes straight to the gate; both keep their tables in one state."""

    def __init__(self, spec: GatedAggregateSpec) -> None:
        self._gate = Gate(spec.gate)
        inner = spec.inner
        self._inner = DatedGroups(inner, spec) if isinstance(inner, AggregateSpec) else make_windowed(inner)

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return self._inner.classify(port, rows, clock)

    @property
    def hashes_after_combine(self) -> bool:
        return isinstance(self._inner, Grouping) and self._inner.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._inner.combine(port, rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        inner = self._inner.filed_step(inputs[0], clock, state, first)
        outer = self._gate.passed(inner.rows, clock, state)
        return replace(inner, rows=outer.rows, timer_us=outer.timer_us)

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

    def __init__(self, spec: AggregateSpec, gated: GatedAggregateSpec) -> None:
        super().__init__(spec)
        self._gate = gated.gate
        if gated.gate.every is None:
            self._over, self._delayed = gated.gate.late, gated.gate.delayed

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return verdict(self._gate, rows, clock)
