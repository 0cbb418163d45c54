"""Windows whose results leave once, when they close: nothing is reckoned before, and nothing waits at a gate."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.ir.specs import GatedAggregateSpec, WindowAggregateSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.results import no_entries, results
from tidegate.kernels.api import Clock, Delta, RowError, State
from tidegate.kernels.windowed import Windowed


def closes_once(spec: GatedAggregateSpec) -> bool:
    """Whether windows are forgotten in the very moment in which their results leave: then what is kept of them is all
    that their results are made of, unless those need values that are stored apart."""
    inner, gate = spec.inner, spec.gate
    if not isinstance(inner, WindowAggregateSpec) or inner.window.kind == "session" or gate.every is not None:
        return False
    ends = [WatermarkTest(inner.window.end, test.watermark, inclusive=True) for test in gate.release]
    stored = any(values.stored for values in Plan(inner.aggregate).values)
    return len(ends) == 1 and ends == list(gate.release) == list(gate.late) and not stored


class Closing:
    """Rows are added to what is kept of their windows; those that have closed are taken out, and become results."""

    def __init__(self, spec: GatedAggregateSpec) -> None:
        assert isinstance(spec.inner, WindowAggregateSpec)
        self._windows, self._columns = Windowed(spec.inner), spec.gate.columns

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
        closed = self._windows.taken(clock, state)
        if closed is None or closed.is_empty():
            return Delta(errors=errors)
        return Delta(self._results(closed), errors, evicted=closed.height)

    def content(self, state: State) -> pl.DataFrame | None:
        """What has left is forgotten."""
        return None

    def _results(self, closed: pl.DataFrame) -> pl.DataFrame | None:
        there = closed.filter(pl.col(WEIGHT) > 0)
        found = results(self._windows.plan, there, there, no_entries).select(self._columns)
        return found.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT)) if found.height else None
