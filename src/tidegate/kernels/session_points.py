"""The rows of sessions, and the extents of open and recently closed sessions.

Rows are kept one by one, since a row that arrives or is retracted may merge two sessions or split one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.kernels.api import Clock, State, Table
from tidegate.kernels.frames import consolidate, find_rows, normalise, row_mask, types_of
from tidegate.kernels.state.sorting import Indexes, equal
from tidegate.kernels.watermarks import micros

TIME, KEY, START, END, KNOWN = "__t", "__key", "__start", "__end", "__known"
FIRST_AT, LAST_AT = "__first_at", "__last_at"
MIX = 0x9E3779B97F4A7C15 - (1 << 64)
_POSITIONS_PER_STEP = 1 << 32
_OWN = frozenset({WEIGHT, SEQ, TIME, KEY, START, END, KNOWN, FIRST_AT, LAST_AT})


@dataclass(frozen=True)
class SessionPoints:
    """`partition` are the columns of a key; `gap` microseconds without a row end a session. `ordered`: the arrival
    of each row is stored, too."""

    partition: tuple[str, ...]
    time: str
    gap: int
    ordered: bool = False

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that have a time, each once with its net weight where their order does not matter."""
        rows = normalise(rows.filter(pl.col(self.time).is_not_null()), columns_of(rows))
        return rows if self.ordered else consolidate(rows, columns_of(rows), _others(rows))

    def net(self, rows: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Combined rows as one per identity, with its time and arrival."""
        if self.ordered:
            arrival = (pl.lit(clock.step, pl.Int64) * _POSITIONS_PER_STEP + pl.col(SEQ)).filter(pl.col(WEIGHT) > 0)
            when = [arrival.min().alias(FIRST_AT), arrival.max().alias(LAST_AT)]
            sums = [pl.col(WEIGHT).sum(), pl.col(_others(rows)).first(), *when]
            rows = rows.group_by(columns_of(rows)).agg(sums).filter(pl.col(WEIGHT) != 0)
        else:
            rows = self.combine(rows)
        return rows.with_columns(micros(rows[self.time]).alias(TIME))

    def with_key(self, rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
        """Rows with the number of their key; without those that have none of these keys."""
        number = pl.Series(KEY, find_rows(rows, keys, self.partition), dtype=pl.Int64)
        return rows.with_columns(number).filter(pl.col(KEY) >= 0)

    def in_sessions(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keyed rows, each with the start and the end of its session."""
        rows = rows.sort(KEY, TIME)
        key, time = rows[KEY].to_numpy(), rows[TIME].to_numpy()
        begins = np.ones(len(time), dtype=np.bool_)
        begins[1:] = (key[1:] != key[:-1]) | (time[1:] - time[:-1] >= self.gap)
        first, session = np.flatnonzero(begins), np.cumsum(begins) - 1
        last = np.append(first[1:], len(time))[: len(first)] - 1
        return rows.with_columns(
            pl.Series(START, time[first][session], dtype=pl.Int64),
            pl.Series(END, time[last][session] + self.gap, dtype=pl.Int64),
        )

    def apply(self, stored: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """The points after the changes `rows` of the points `stored`, in their sessions. `__known`: existed before."""
        shape = [*rows.columns, KNOWN]
        both = pl.concat(
            [
                stored.with_columns(pl.lit(True).alias(KNOWN)).select(shape),
                rows.with_columns(pl.lit(False).alias(KNOWN)),
            ]
        )
        ident = [KEY, *columns_of(rows)]
        others = [name for name in rows.columns if name not in (*ident, WEIGHT, FIRST_AT, LAST_AT)]
        when = [pl.col(FIRST_AT).min(), pl.col(LAST_AT).max()] if self.ordered else []
        sums = both.group_by(ident).agg(pl.col(WEIGHT).sum(), pl.col(KNOWN).any(), pl.col(others).first(), *when)
        return self.in_sessions(sums.filter(pl.col(WEIGHT) > 0))


def columns_of(rows: pl.DataFrame) -> list[str]:
    """The port's own columns; names of columns that the binder computes begin with underscores, too."""
    return [name for name in rows.columns if not _internal(name)]


def _internal(name: str) -> bool:
    return name in _OWN or name.startswith(HASH)


def points_table(rows: pl.DataFrame, state: State) -> Table:
    """The table of points, ordered by key, and by time within."""
    types = {name: dtype for name, dtype in rows.schema.items() if name not in (HASH, TIME)}
    return state.table("points", types, columns_of(rows), within=TIME)


def same_points(rows: pl.DataFrame, points: pl.DataFrame) -> Indexes:
    """For each row the number of the point that is the same row; -1 if there is none."""
    one, other = (part.with_columns(mix_hashes(part[HASH], part[TIME]).alias(HASH)) for part in (rows, points))
    return find_rows(one, other, columns_of(rows))


def mix_hashes(hashes: pl.Series, numbers: pl.Series) -> pl.Series:
    """Hashes of a key and a number."""
    return hashes ^ (numbers * MIX)


def replace_points(before: pl.DataFrame, after: pl.DataFrame, table: Table) -> None:
    """The stored points `before` become those of `after`."""
    indexes = same_points(after, before)
    known = pl.Series(indexes >= 0)
    counted = [name for name in (WEIGHT, FIRST_AT, LAST_AT) if name in after.columns]
    moved = ~equal(before[indexes[indexes >= 0]], after.filter(known), counted)
    removed = before.filter(pl.Series(~row_mask(before.height, indexes[indexes >= 0])))
    upserts = pl.concat([after.filter(~known), after.filter(known).filter(pl.Series(moved))])
    table.write(upserts, removed, after.height - before.height)


def _others(rows: pl.DataFrame) -> list[str]:
    """The other hash columns."""
    return [name for name in rows.columns if _internal(name) and name not in (WEIGHT, SEQ, TIME)]


_KEY_HASH = "__k"


class Extents:
    """The start and end of sessions per key: open ones by the time at which they close, closed ones for two more
    gaps."""

    def __init__(self, partition: Sequence[str], gap: int, lateness: int) -> None:
        self._ident = [*partition, START, END]
        self._remembered, self._lateness = 2 * gap, lateness

    def due(self, watermark: int, state: State) -> pl.Series:
        """The hashes of keys with sessions that a watermark closes for good. Those are no longer listed as open."""
        table = state.find_table("open", self._ident)
        if table is None:
            return pl.Series(HASH, [], dtype=pl.Int64)
        hashes = table.between(None, watermark + 1)[_KEY_HASH].alias(HASH)
        if len(hashes):
            table.evict_below(watermark + 1)
        return hashes

    def move(self, before: pl.DataFrame, after: pl.DataFrame, state: State) -> None:
        """The open sessions `before` become those of `after` (both frames of points)."""
        old, new = self.each(before), self.each(after)
        removed = old.join(new, on=new.columns, how="anti", nulls_equal=True)
        added = new.join(old, on=new.columns, how="anti", nulls_equal=True)
        table = self._by_time("open", new, state)
        table.write(self._with_order_key(added, 0), self._with_order_key(removed, 0), added.height - removed.height)

    def close(self, over: pl.DataFrame, hashes: pl.Series, watermark: int, state: State) -> pl.DataFrame:
        """Stores the sessions `over` as closed, as long as a row could reopen one. Returns all such sessions of keys
        with these hashes."""
        each = self.each(over)
        closed = state.table("closed", types_of(each, self._ident), self._ident)
        remembered = pl.col(END) + self._lateness + self._remembered > watermark
        known, fresh = closed.groups(hashes).filter(remembered), each.filter(remembered)
        closed.write(fresh, grown=fresh.height)
        ends = self._with_order_key(fresh, self._remembered)
        self._by_time("closed_by_time", each, state).write(ends, grown=fresh.height)
        return pl.concat([known.select(each.columns), fresh])

    def stale(self, watermark: int) -> pl.Expr:
        """The rows that are so old that they may join a session which is closed and forgotten."""
        return pl.col(TIME) + self._lateness + self._remembered <= watermark

    def evict(self, watermark: int, state: State) -> None:
        """Evicts sessions that were closed more than two gaps ago: no row that is not stale can join them."""
        index, closed = state.find_table("closed_by_time", self._ident), state.find_table("closed", self._ident)
        if index is None or closed is None:
            return
        old = index.between(None, watermark + 1)
        if old.height:
            closed.write(None, old.with_columns(pl.col(_KEY_HASH).alias(HASH)), -old.height)
            index.evict_below(watermark + 1)

    def ends(self, state: State) -> pl.DataFrame | None:
        """The open sessions."""
        table = state.find_table("open", self._ident)
        return None if table is None else table.scan().select(self._ident)

    def each(self, points: pl.DataFrame) -> pl.DataFrame:
        """The sessions of points, each once."""
        return points.select(HASH, *self._ident).unique(maintain_order=True)

    def _by_time(self, name: str, sessions: pl.DataFrame, state: State) -> Table:
        return state.table(name, types_of(sessions, self._ident), self._ident, within=_KEY_HASH)

    def _with_order_key(self, sessions: pl.DataFrame, later: int) -> pl.DataFrame:
        """Sessions with the time at which they close, or are evicted, as their order key."""
        order_key = pl.col(END) + self._lateness + later
        return sessions.with_columns(pl.col(HASH).alias(_KEY_HASH), order_key.alias(HASH))
