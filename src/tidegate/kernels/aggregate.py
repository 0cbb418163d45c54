"""GROUP BY: groups with the results of their aggregate functions, exact under retraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AggregateSpec
from tidegate.kernels.aggregates.bags import all_entries, table_name, value_ident
from tidegate.kernels.aggregates.exact import ExactSums
from tidegate.kernels.aggregates.partial import Partial, Parts
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.step import GroupStep, results
from tidegate.kernels.api import Clock, Delta, NeverLate, RowError, State
from tidegate.kernels.evicting import StateTable, evict_passed
from tidegate.kernels.group_limit import GroupLimit
from tidegate.kernels.watermarks import with_eviction_order


class Aggregate(NeverLate):
    """The kernel. Per group it keeps the number of rows, sums, best entries, and values where needed."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec, self.plan = spec, Plan(spec)
        self._partial = Partial(self.plan)
        self._cap = None if spec.max_groups is None else GroupLimit(spec.keys, spec.max_groups)
        self._evict_before = spec.evict_before

    @property
    def hashes_after_combine(self) -> bool:
        return self._partial.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._partial.combine(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        return without_hash(self.step_with_hash(inputs[0], clock, state, first))

    def step_with_hash(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        """As `step`, with the hash of its group in every change."""
        delta = self._changed(rows, clock, state, first and self.plan.spec.scalar)
        return replace(delta, evicted=evict_passed(self.tables(), (self._evict_before,), clock.watermarks, state))

    def tables(self) -> list[StateTable]:
        bags = [number for number, values in enumerate(self.plan.values) if values.stored]
        values = [StateTable(table_name(number), value_ident(self.plan, number), counted=False) for number in bags]
        return [StateTable("groups", self.spec.keys), *values]

    def _changed(self, rows: pl.DataFrame | None, clock: Clock, state: State, begins: bool) -> Delta:
        if rows is None or rows.is_empty():
            if not begins:
                return Delta()
            rows = self.plan.empty_input()
        rows = with_eviction_order(rows, self._evict_before[0].column if self._evict_before else None)
        errors: list[RowError] = []
        if self._cap is not None:
            rows, errors = self._cap.admit(rows, state)
        parts = self._partial.parts(rows)
        if begins and parts.groups.is_empty():
            parts = _zero(parts)
        changes = None if parts.groups.is_empty() else GroupStep(self.plan, parts, clock, state).changes(with_hash=True)
        return Delta(changes, errors)

    def content(self, state: State) -> pl.DataFrame | None:
        return groups_content(self.plan, state)


def without_hash(delta: Delta) -> Delta:
    """The delta without the column `__h`."""
    return delta if delta.rows is None else replace(delta, rows=delta.rows.drop(HASH))


def groups_content(plan: Plan, state: State) -> pl.DataFrame | None:
    """The results of all stored groups."""
    table = state.find_table("groups", plan.spec.keys)
    if table is None:
        return None
    groups = table.scan().filter(pl.lit(plan.spec.scalar) | (pl.col(WEIGHT) > 0))
    rows = results(plan, groups, groups, lambda number: all_entries(number, plan, groups, state))
    return rows.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))


def _zero(parts: Parts) -> Parts:
    """The one group of a global aggregate, without rows."""
    nothing = np.empty(0, dtype=np.int64)
    groups = pl.DataFrame({name: [0] for name in parts.groups.columns}, schema=parts.groups.schema)
    return Parts(groups, dict.fromkeys(parts.reals, ExactSums(1, nothing, nothing, nothing)), parts.entries)
