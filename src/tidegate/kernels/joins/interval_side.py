"""One side of an interval join: its stored rows by slices of time, the rows that wait to be padded, and the limits that
the clock sets on both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import PROCTIME, Comparison, IntervalJoinSpec, KeyPair
from tidegate.kernels.api import INFINITE, Clock, State, Table
from tidegate.kernels.frames import consolidate, normalise
from tidegate.kernels.joins.incremental import KINDS, MATCHES, SIDES
from tidegate.kernels.joins.pairs import JoinCondition
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.sorting import Mask
from tidegate.kernels.watermarks import Watermarks, watermark_micros

_RANGE_US = 3 * 10**17
"""More than the microseconds from year 1 to 9999, either side of the epoch."""
SHORTEST_US = 1_000
_MOST_BITS = 32
_PER_REACH = 4
"""Slices per interval: more slices read fewer rows in vain, but more ranges."""


class Slices:
    """`reach` is the length of the time within which the rows lie that are sought together."""

    def __init__(self, reach: int) -> None:
        self.length = max(reach // _PER_REACH, SHORTEST_US)
        self._bits = min(62 - (_RANGE_US // self.length + 1).bit_length(), _MOST_BITS)
        self._most = 1 << (62 - self._bits)

    def keys(self, times: Ints, hashes: Ints) -> Ints:
        """The numbers for rows with these times and hashes of keys."""
        spread = (hashes.view(np.uint64) >> np.uint64(64 - self._bits)).view(np.int64)
        return (self._slice(times) << self._bits) | spread

    def codes(self, order_keys: Ints) -> Ints:
        """The codes of keys in order keys."""
        return order_keys & ((1 << self._bits) - 1)

    def cover(self, codes: Ints, low: Ints, high: Ints) -> Ints:
        """The order keys, some repeatedly, of all rows with one of the codes and a time from `low` to `high`."""
        if not len(codes):
            return codes
        first, last = self._slice(low), self._slice(high)
        keys = []
        for step in range(int((last - first).max()) + 1):
            inside = first + step <= last
            keys.append(((first[inside] + step) << self._bits) | codes[inside])
        return np.concatenate(keys)

    def below(self, time: int) -> int:
        """An upper bound (exclusive) of the order keys of slices that lie entirely before a time."""
        return min(max(time // self.length, -self._most), self._most - 1) << self._bits

    def _slice(self, times: Ints) -> Ints:
        return np.clip(times // self.length, -self._most, self._most - 1)


NEVER, FOREVER = -(1 << 62), 1 << 62
"""Below every time, and above."""


@dataclass(frozen=True)
class Limits:
    """Limits of one side, by the time of its rows: unmatched rows below `due`, or that arrived before `waited`, are
    emitted singly; rows below `evict_below` are evicted; rows below `retractable_from` can no longer be retracted."""

    due: int
    waited: int
    evict_below: int
    retractable_from: int

    def leave(self, times: Ints, arrived: Ints | None) -> Mask:
        """A mask of the rows that have waited long enough."""
        left: Mask = times < self.due
        return left if arrived is None else left | (arrived < self.waited)


def side_watermark(spec: IntervalJoinSpec, side: int, watermarks: Watermarks) -> int:
    """The watermark of a side in microseconds: no more rows below it are accepted."""
    name = spec.watermarks[side]
    watermark = None if name is None else watermarks.get(name)
    if watermark == INFINITE:
        return FOREVER
    micros = watermark_micros(watermark, spec.watermark_types[side] == "date")
    return NEVER if micros is None else micros


def limits(spec: IntervalJoinSpec, clock: Clock) -> tuple[Limits, Limits]:
    """The limits of both sides at the end of a step: rows of later steps are not below its watermarks."""
    if spec.proctime:
        now = clock.time_us
        return _by_clock(spec, now, 0), _by_clock(spec, now, 1)
    watermarks = side_watermark(spec, 0, clock.watermarks), side_watermark(spec, 1, clock.watermarks)
    return _by_watermarks(spec, clock, watermarks, 0), _by_watermarks(spec, clock, watermarks, 1)


def _by_watermarks(spec: IntervalJoinSpec, clock: Clock, watermarks: tuple[int, int], side: int) -> Limits:
    """A row that may be retracted is stored until its retraction would be late. Its matches are still stored then: they
    are stored as long as the row could arrive."""
    unmet, due, waited = _moved(watermarks[1 - side], -_last(spec, side)), NEVER, NEVER
    if spec.early is not None and spec.early.mode == PROCTIME:
        waited = clock.time_us - spec.early.delay + 1
    elif spec.early is not None:
        due = _moved(min(watermarks), 1 - spec.early.delay)
    over = unmet if spec.append_only[side] else min(unmet, watermarks[side])
    return Limits(max(due, unmet), waited, over, NEVER)


def _by_clock(spec: IntervalJoinSpec, now: int, side: int) -> Limits:
    """A row may be retracted as long as it can match others, at least in the step of its arrival. Until then its
    matches are stored, too."""
    last, unmet = [_last(spec, side), _last(spec, 1 - side)], now - _last(spec, side)
    due = unmet if spec.early is None else max(unmet, now - spec.early.delay + 1)
    recalled = now - max(last[0], 0)
    over = unmet if spec.append_only[side] else min(unmet, recalled)
    return Limits(due, NEVER, over if spec.append_only[1 - side] else min(over, unmet - max(last[1], 0)), recalled)


def _last(spec: IntervalJoinSpec, side: int) -> int:
    """How much later than a row of a side the last row can be that it matches."""
    return spec.upper if side == 0 else -spec.lower


def _moved(time: int, by: int) -> int:
    return time if time in (NEVER, FOREVER) else int(np.clip(time + by, NEVER, FOREVER))


ARRIVAL, ARRIVED_AT, OUT, ORDER_KEY = "__arrival", "__came", "__out", "__filed"
"""Stored with rows: the number of a row that is never retracted; the processing time of its arrival; whether it was
emitted singly; and in a list of waiting rows, the order key of the row."""

_ARRIVAL_BITS = 30


class Side:
    """One side as the spec defines it.

    Rows of an append-only side are stored one by one under their arrival number, since none is ever looked up by value.
    Other rows are stored as a bag. `low` and `high` bound the times of the rows that a row can match, relative to its
    own. `emits_matched`: single rows are emitted if they have a match (True) or none (False).
    """

    def __init__(self, spec: IntervalJoinSpec, number: int) -> None:
        self.number, self.name, self.time = number, SIDES[number], spec.times[number]
        self.columns, self.append_only = _columns(spec, number), spec.append_only[number]
        self.low, self.high = (spec.lower, spec.upper) if number == 0 else (-spec.upper, -spec.lower)
        self.emits_matched, self.proctime = KINDS[spec.kind].single[number], spec.proctime
        self.loses = not spec.append_only[1 - number]
        # Without retractions, a row of a semi or anti join that has a match needs no further matches.
        self.ends = not KINDS[spec.kind].pairs and all(spec.append_only)
        early = spec.early is not None and spec.early.mode == PROCTIME and self.emits_matched is False
        self.arrived = ARRIVED_AT if early and not spec.proctime else None
        self.ident = [ARRIVAL] if self.append_only else [*self.columns, *([ARRIVED_AT] if self.arrived else [])]
        self._within = ARRIVAL if self.append_only else self.time
        self._condition = JoinCondition(spec.keys)
        self.lists = tuple(Waiting(self, by) for by in (self.time, self.arrived) if by and self.emits_matched is False)

    def matchable(self, rows: pl.DataFrame) -> Mask:
        """A mask of the rows that can match at all."""
        if self.low > self.high:
            return np.zeros(rows.height, dtype=np.bool_)
        matchable = self._condition.matchable(self.number, rows)
        return matchable if self.proctime else matchable & rows[self.time].is_not_null().to_numpy()

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the needed columns, without rows that can produce no output."""
        if self.emits_matched is not False:
            rows = rows.filter(pl.Series(self.matchable(rows), dtype=pl.Boolean))
        rows = rows.select(*self.columns, HASH, WEIGHT)
        return rows if self.append_only else consolidate(normalise(rows, self.columns), [HASH, *self.columns])

    def prepare(self, rows: pl.DataFrame, clock: Clock, first: bool) -> pl.DataFrame:
        """The rows of a step as they are stored: with their time and arrival. The initial content of an operator
        arrives in the same step as other rows may, but in a run of its own, the first."""
        now = pl.lit(clock.time_us, pl.Int64)
        if self.proctime:
            rows = rows.with_columns(now.alias(self.time))
        rows = self.combine(rows)
        start = (2 * clock.step + (not first)) << _ARRIVAL_BITS
        added = {
            ARRIVAL: pl.int_range(start, start + rows.height, dtype=pl.Int64) if self.append_only else None,
            ARRIVED_AT: now if self.arrived else None,
            MATCHES: None if self.emits_matched is None else pl.lit(0, pl.Int64),
            OUT: pl.lit(False) if self.emits_matched is False else None,
        }
        return rows.with_columns(value.alias(name) for name, value in added.items() if value is not None)

    def find_table(self, state: State) -> Table | None:
        return state.find_table(self.name, self.ident)

    def types(self, state: State) -> Mapping[str, pl.DataType]:
        """The types of the columns, if anything was ever stored."""
        table = self.find_table(state)
        return {} if table is None else table.schema

    def write(self, written: pl.DataFrame, deleted: pl.DataFrame, grown: int, state: State) -> None:
        if written.height or deleted.height:
            types = {name: dtype for name, dtype in written.schema.items() if name not in (HASH, self._within)}
            state.table(self.name, types, self.ident, self._within).write(written, deleted, grown)

    def evict(self, limits: Limits, slices: Slices, state: State) -> int:
        """Evict the slices that are entirely below the limit; returns the number of rows."""
        table = self.find_table(state)
        high = None if limits.evict_below == FOREVER else slices.below(limits.evict_below)
        return 0 if table is None else _evict_below(table, high)


@dataclass(frozen=True)
class Waiting:
    """A list of the unmatched rows that are not emitted yet, in the order of the time column `by`."""

    side: Side
    by: str

    def limit(self, limits: Limits) -> int:
        """An upper bound (exclusive) of the order keys of rows that are due."""
        return limits.due if self.by == self.side.time else limits.waited

    def find_table(self, state: State) -> Table | None:
        return state.find_table(self._name, self.side.ident)

    def due(self, limits: Limits, state: State) -> pl.DataFrame | None:
        """The rows that wait no longer, as listed before the step."""
        table, limit = self.find_table(state), self.limit(limits)
        if table is None or (low := table.lowest()) is None or low >= limit:
            return None
        return table.between(None, limit).select(pl.col(ORDER_KEY).alias(HASH), *self.side.ident)

    def change(self, written: pl.DataFrame, deleted: pl.DataFrame, state: State) -> None:
        """Add rows of the side to the list, and remove others."""
        if written.height or deleted.height:
            types = {name: written.schema[name] for name in self.side.ident}
            table = state.table(self._name, types, self.side.ident, ORDER_KEY)
            table.write(self._entries(written), self._entries(deleted), written.height - deleted.height)

    def evict(self, limits: Limits, state: State) -> None:
        table = self.find_table(state)
        if table is not None:
            _evict_below(table, self.limit(limits))

    @property
    def _name(self) -> str:
        return f"{self.side.name}_{'due' if self.by == self.side.time else 'came'}"

    def _entries(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(pl.col(self.by).alias(HASH), pl.col(HASH).alias(ORDER_KEY), *self.side.ident)


def numbers(rows: pl.DataFrame, name: str) -> Ints:
    values: Ints = rows[name].to_numpy()
    return values


def _evict_below(table: Table, high: int | None) -> int:
    low = table.lowest()
    return 0 if low is None or (high is not None and low >= high) else table.evict_below(high).height


def _columns(spec: IntervalJoinSpec, number: int) -> list[str]:
    """The columns of a side that are stored: for the right side of a semi or anti join those of the condition. All
    columns if the arrival matters and rows are retracted: else it would be unknown which row a retraction removes."""
    needed = {output.column for output in spec.outputs if output.side == number}
    tests: tuple[KeyPair | Comparison, ...] = (*spec.keys, *spec.conditions)
    needed |= {test.left if number == 0 else test.right for test in tests}
    if (spec.proctime or spec.early is not None) and not spec.append_only[number]:
        needed |= {*spec.columns[number]}
    time = spec.times[number]
    return [*(name for name in spec.columns[number] if name in needed and name != time), time]
