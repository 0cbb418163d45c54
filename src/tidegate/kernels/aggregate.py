"""GROUP BY: groups with the results of their aggregate functions, exact under retraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import AggregateSpec
from tidegate.kernels.aggregates.bags import all_entries, forget_values
from tidegate.kernels.aggregates.exact import Reals
from tidegate.kernels.aggregates.partial import Partial, Parts
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.results import results
from tidegate.kernels.aggregates.step import GroupStep
from tidegate.kernels.api import Clock, Delta, NeverLate, RowError, State
from tidegate.kernels.cap import Cap
from tidegate.kernels.lines import since
from tidegate.kernels.over import filed, forget


class Aggregate(NeverLate):
    """The kernel. What it keeps of a group: the number of its rows, sums, best entries, and values where needed."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec, self.plan = spec, Plan(spec)
        self._partial = Partial(self.plan)
        self._cap = None if spec.max_groups is None else Cap(spec.keys, spec.max_groups)
        self._over, self._delayed = spec.evict_before, spec.delayed

    @property
    def hashes_after_combine(self) -> bool:
        return self._partial.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._partial.combined(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        return unfiled(self.filed_step(inputs[0], clock, state, first))

    def filed_step(self, rows: pl.DataFrame | None, clock: Clock, state: State, first: bool) -> Delta:
        """As `step`; the changes carry the hash of their group."""
        begins = first and self.plan.spec.scalar
        dropped = self._forget(clock, state)
        if rows is None or rows.is_empty():
            if not begins:
                return Delta(evicted=dropped)
            rows = self.plan.empty_input()
        rows = filed(rows, self._over)
        errors: list[RowError] = []
        if self._cap is not None:
            rows, errors = self._cap.admitted(rows, state)
        parts = self._partial.parts(rows)
        if begins and parts.groups.is_empty():
            parts = _zero(parts)
        changes = None if parts.groups.is_empty() else GroupStep(self.plan, parts, clock, state).changes(filed=True)
        return Delta(changes, errors, evicted=dropped)

    def _forget(self, clock: Clock, state: State) -> int:
        """Drops the groups that have all their rows: none of them is touched in this step."""
        ended = forget("groups", self.spec.keys, self._over, since(clock, self._delayed), state)
        if ended is None:
            return 0
        forget_values(self.plan, ended, state)
        return ended.height

    def content(self, state: State) -> pl.DataFrame | None:
        return groups_content(self.plan, state)


def unfiled(delta: Delta) -> Delta:
    """Without the hashes."""
    return delta if delta.rows is None else replace(delta, rows=delta.rows.drop(HASH))


def groups_content(plan: Plan, state: State) -> pl.DataFrame | None:
    """The results of all groups that are stored."""
    table = state.stored("groups", plan.spec.keys)
    if table is None:
        return None
    groups = table.scan().filter(pl.lit(plan.spec.scalar) | (pl.col(WEIGHT) > 0))
    found = results(plan, groups, groups, lambda number: all_entries(number, plan, groups, state))
    return found.with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))


def _zero(parts: Parts) -> Parts:
    """The one group of a global aggregate, without rows."""
    nothing = np.empty(0, dtype=np.int64)
    groups = pl.DataFrame({name: [0] for name in parts.groups.columns}, schema=parts.groups.schema)
    return Parts(groups, dict.fromkeys(parts.reals, Reals(1, nothing, nothing, nothing)), parts.entries)
