"""One side of an interval join: its rows, and the tables they are kept in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import PROCTIME, Comparison, IntervalJoinSpec, KeyPair
from tidegate.kernels.api import Clock, State, Table
from tidegate.kernels.frames import consolidated, normalised
from tidegate.kernels.joins.incremental import KINDS, MATCHES, SIDES
from tidegate.kernels.joins.interval_limits import FOREVER, Limits
from tidegate.kernels.joins.interval_slices import Slices
from tidegate.kernels.joins.pairs import Meeting
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.search import Mask

ARRIVAL, CAME, OUT, FILED = "__arrival", "__came", "__out", "__filed"
"""What is kept with rows: the number of a row that is never taken back; the processing time at which a row came; if it
has left by itself; and in a list of rows that wait, the number under which the row is filed."""

_PLACES = 30


class Side:
    """What is known of a side at CREATE.

    Rows of a side that never retracts are kept each by itself, under the number it came with: none need ever be found
    again by what it is. Other rows are kept as a bag. `low` and `high` say where the rows lie that a row can meet, from
    its time. `meets`: of rows that leave singly, whether they are those that meet any (True) or none (False).
    """

    def __init__(self, spec: IntervalJoinSpec, number: int) -> None:
        self.number, self.name, self.time = number, SIDES[number], spec.times[number]
        self.columns, self.append_only = _columns(spec, number), spec.append_only[number]
        self.low, self.high = (spec.lower, spec.upper) if number == 0 else (-spec.upper, -spec.lower)
        self.meets, self.proctime = KINDS[spec.kind].single[number], spec.proctime
        self.loses = not spec.append_only[1 - number]
        # Where nothing is ever taken back, a row of a semi or anti join that has met one has nothing more to do.
        self.ends = not KINDS[spec.kind].pairs and all(spec.append_only)
        early = spec.early is not None and spec.early.mode == PROCTIME and self.meets is False
        self.came = CAME if early and not spec.proctime else None
        self.ident = [ARRIVAL] if self.append_only else [*self.columns, *([CAME] if self.came else [])]
        self._within = ARRIVAL if self.append_only else self.time
        self._meeting = Meeting(spec.keys)
        self.lists = tuple(Waiting(self, by) for by in (self.time, self.came) if by and self.meets is False)

    def able(self, rows: pl.DataFrame) -> Mask:
        """Which rows can meet any row at all."""
        if self.low > self.high:
            return np.zeros(rows.height, dtype=np.bool_)
        able = self._meeting.able(self.number, rows)
        return able if self.proctime else able & rows[self.time].is_not_null().to_numpy()

    def combined(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with what is needed of them, without those of which nothing can come."""
        if self.meets is not False:
            rows = rows.filter(pl.Series(self.able(rows), dtype=pl.Boolean))
        rows = rows.select(*self.columns, HASH, WEIGHT)
        return rows if self.append_only else consolidated(normalised(rows, self.columns), [HASH, *self.columns])

    def arrived(self, rows: pl.DataFrame, clock: Clock, first: bool) -> pl.DataFrame:
        """The rows of a step as they are kept: with their time, and with what tells them from others. The content that
        an operator begins with comes in the same step as rows may come, but in a run of its own: its first."""
        now = pl.lit(clock.time_us, pl.Int64)
        if self.proctime:
            rows = rows.with_columns(now.alias(self.time))
        rows = self.combined(rows)
        start = (2 * clock.step + (not first)) << _PLACES
        added = {
            ARRIVAL: pl.int_range(start, start + rows.height, dtype=pl.Int64) if self.append_only else None,
            CAME: now if self.came else None,
            MATCHES: None if self.meets is None else pl.lit(0, pl.Int64),
            OUT: pl.lit(False) if self.meets is False else None,
        }
        return rows.with_columns(value.alias(name) for name, value in added.items() if value is not None)

    def stored(self, state: State) -> Table | None:
        return state.stored(self.name, self.ident)

    def types(self, state: State) -> Mapping[str, pl.DataType]:
        """The types of the columns, if anything was ever stored."""
        table = self.stored(state)
        return {} if table is None else table.schema

    def write(self, come: pl.DataFrame, gone: pl.DataFrame, grown: int, state: State) -> None:
        if come.height or gone.height:
            types = {name: dtype for name, dtype in come.schema.items() if name not in (HASH, self._within)}
            state.table(self.name, types, self.ident, self._within).write(come, gone, grown)

    def forget(self, limits: Limits, slices: Slices, state: State) -> int:
        """Drops the slices of which all rows are over; how many rows these are."""
        table = self.stored(state)
        high = None if limits.over == FOREVER else slices.below(limits.over)
        return 0 if table is None else _forgotten(table, high)


@dataclass(frozen=True)
class Waiting:
    """A list of the rows that have met none and have not left, filed by a time of theirs: the column `by`."""

    side: Side
    by: str

    def limit(self, limits: Limits) -> int:
        """What is filed below this waits no longer."""
        return limits.due if self.by == self.side.time else limits.waited

    def stored(self, state: State) -> Table | None:
        return state.stored(self._name, self.side.ident)

    def due(self, limits: Limits, state: State) -> pl.DataFrame | None:
        """Which rows wait no longer, as they were listed before the step."""
        table, limit = self.stored(state), self.limit(limits)
        if table is None or (low := table.lowest()) is None or low >= limit:
            return None
        return table.between(None, limit).select(pl.col(FILED).alias(HASH), *self.side.ident)

    def change(self, come: pl.DataFrame, gone: pl.DataFrame, state: State) -> None:
        """Puts rows of the side on the list, and takes others off."""
        if come.height or gone.height:
            types = {name: come.schema[name] for name in self.side.ident}
            table = state.table(self._name, types, self.side.ident, FILED)
            table.write(self._entries(come), self._entries(gone), come.height - gone.height)

    def forget(self, limits: Limits, state: State) -> None:
        table = self.stored(state)
        if table is not None:
            _forgotten(table, self.limit(limits))

    @property
    def _name(self) -> str:
        return f"{self.side.name}_{'due' if self.by == self.side.time else 'came'}"

    def _entries(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(pl.col(self.by).alias(HASH), pl.col(HASH).alias(FILED), *self.side.ident)


def numbers(rows: pl.DataFrame, name: str) -> Ints:
    found: Ints = rows[name].to_numpy()
    return found


def _forgotten(table: Table, high: int | None) -> int:
    low = table.lowest()
    return 0 if low is None or (high is not None and low >= high) else table.evict_below(high).height


def _columns(spec: IntervalJoinSpec, number: int) -> list[str]:
    """The columns of a side that matter: of the right one of a semi or anti join, what decides about a match. Where it
    matters when a row came, and rows go, all do: else it would not be known which one goes."""
    wanted = {taken.column for taken in spec.outputs if taken.side == number}
    tests: tuple[KeyPair | Comparison, ...] = (*spec.keys, *spec.conditions)
    wanted |= {test.left if number == 0 else test.right for test in tests}
    if (spec.proctime or spec.early is not None) and not spec.append_only[number]:
        wanted |= {*spec.columns[number]}
    time = spec.times[number]
    return [*(name for name in spec.columns[number] if name in wanted and name != time), time]
