"""Eviction of rows that no input can change, match or retract any more.

The tables of an evicting kernel are ordered by a time instead of a hash, so that what a watermark has passed lies
together. Rows are evicted at the end of a step by the watermarks of that step: whatever the next step brings is not
below them, even if it leaves an operator that waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import polars as pl

from tidegate.core.columns import HASH
from tidegate.ir.specs import EvictingSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import LATE, Clock, Delta, Grouping, Kernel, State, Table
from tidegate.kernels.watermarks import (
    Watermarks,
    all_pass,
    eviction_floor,
    eviction_limit,
    watermarks_for,
    with_eviction_order,
)

BY_TIME = "_by_time"
"""The suffix of the names of tables that are ordered by time."""


@dataclass(frozen=True)
class StateTable:
    """A table of a kernel with rows of a port: its name, and the columns that identify a row. `counted`: evicted rows
    are counted; not if each belongs to a row of another table."""

    name: str
    ident: Sequence[str]
    port: int = 0
    counted: bool = True


@runtime_checkable
class Evictable(Protocol):
    """A kernel whose tables all have the columns of their port that eviction goes by."""

    def tables(self) -> Sequence[StateTable]: ...


class Evicting:
    """A kernel, and the eviction of its rows."""

    def __init__(self, spec: EvictingSpec, inner: Kernel) -> None:
        assert isinstance(inner, Evictable)
        self._spec, self._inner, self._tables = spec, inner, tuple(inner.tables())

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        tests = self._spec.late[port] if self._spec.late else ()
        if not tests:
            return self._inner.classify(port, rows, clock)
        late = all_pass(tests, rows, watermarks_for(clock, self._spec.delayed[port]))
        return late.cast(pl.Int8) * LATE if late.any() else None

    @property
    def hashes_after_combine(self) -> bool:
        return isinstance(self._inner, Grouping) and self._inner.hashes_after_combine

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self._inner.combine(port, rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        ordered = [
            None if rows is None else with_eviction_order(self._inner.combine(port, rows), self._spec.order[port])
            for port, rows in enumerate(inputs)
        ]
        own = _ByTime(state)
        delta = self._inner.step(ordered, clock, own, first)
        dropped = evict_passed(self._tables, self._spec.evict_before, clock.watermarks, own)
        return replace(delta, evicted=delta.evicted + dropped)

    def content(self, state: State) -> pl.DataFrame | None:
        return self._inner.content(_ByTime(state))

    def adopt(self, state: State) -> bool:
        """Moves the rows that this operator stored before it evicted any. True if there were some."""
        found = False
        for each in self._tables:
            table = state.find_table(each.name, each.ident)
            if table is None or not table.count:
                continue
            found = True
            rows = with_eviction_order(table.evict_below(None), self._spec.order[each.port])
            types = {name: dtype for name, dtype in table.schema.items() if name not in (HASH, table.within)}
            _ByTime(state).table(each.name, types, each.ident, table.within).write(rows, grown=rows.height)
        return found


@runtime_checkable
class Adopting(Protocol):
    """A kernel that can read state which an earlier version of itself has stored in another form."""

    def adopt(self, state: State) -> bool: ...


class _ByTime:
    """The tables that are ordered by time, under the names that the kernel gives them."""

    def __init__(self, state: State) -> None:
        self._state = state

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], ident: Sequence[str], within: str | None = None
    ) -> Table:
        return self._state.table(name + BY_TIME, columns, ident, within)

    def find_table(self, name: str, ident: Sequence[str] | None) -> Table | None:
        return self._state.find_table(name + BY_TIME, ident)


Tests = tuple[WatermarkTest, ...]


def evict_passed(tables: Iterable[StateTable], tests: Sequence[Tests], watermarks: Watermarks, state: State) -> int:
    """Deletes the rows that pass all tests of their port (none: never), those written in this step too. The tables are
    ordered by the column of the first test. Returns how many rows counted."""
    return sum(_evict(each, tests[each.port], watermarks, state) * each.counted for each in tables)


def _evict(each: StateTable, tests: Tests, watermarks: Watermarks, state: State) -> int:
    value = watermarks.get(tests[0].watermark) if tests else None
    table = state.find_table(each.name, each.ident) if value is not None else None
    if table is None:
        return 0
    floor = eviction_floor(value) if len(tests) == 1 else None
    dropped = 0 if floor is None else table.evict_below(floor).height
    near = table.between(floor, eviction_limit(value), pending=True)
    passed = near.filter(all_pass(tests, near, watermarks))
    if passed.height:
        table.write(None, passed, -passed.height)
    return dropped + passed.height
