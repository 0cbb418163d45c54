"""The rows that sessions are made of, each with its weight and the key that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.kernels.api import Clock, State, Table
from tidegate.kernels.frames import consolidated, normalised, numbered
from tidegate.kernels.lines import micros
from tidegate.kernels.state.merge import equal
from tidegate.kernels.state.search import Places
from tidegate.kernels.weights import there

TIME, KEY, START, END, KNOWN = "__t", "__key", "__start", "__end", "__known"
FIRST_AT, LAST_AT = "__first_at", "__last_at"
MIX = 0x9E3779B97F4A7C15 - (1 << 64)
_PLACES = 1 << 32
_OWN = frozenset({WEIGHT, SEQ, TIME, KEY, START, END, KNOWN, FIRST_AT, LAST_AT})


@dataclass(frozen=True)
class Points:
    """`partition` are the columns of a key; `gap` microseconds without a row end a session. `ordered`: when each row
    came is kept, too."""

    partition: tuple[str, ...]
    time: str
    gap: int
    ordered: bool = False

    def combined(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that have a time, each once with its net weight where their order does not matter."""
        rows = normalised(rows.filter(pl.col(self.time).is_not_null()), columns_of(rows))
        return rows if self.ordered else consolidated(rows, columns_of(rows), _others(rows))

    def netted(self, rows: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Combined rows as one per identity, with its time and when it came."""
        if self.ordered:
            came = (pl.lit(clock.step, pl.Int64) * _PLACES + pl.col(SEQ)).filter(pl.col(WEIGHT) > 0)
            when = [came.min().alias(FIRST_AT), came.max().alias(LAST_AT)]
            sums = [pl.col(WEIGHT).sum(), pl.col(_others(rows)).first(), *when]
            rows = rows.group_by(columns_of(rows)).agg(sums).filter(pl.col(WEIGHT) != 0)
        else:
            rows = self.combined(rows)
        return rows.with_columns(micros(rows[self.time]).alias(TIME))

    def keyed(self, rows: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
        """Rows with the number of their key; without those that have none of these keys."""
        number = pl.Series(KEY, numbered(rows, keys, self.partition), dtype=pl.Int64)
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

    def changed(self, kept: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """The points after `rows` have been added to those `kept`, in their sessions. `__known`: was there before."""
        shape = [*rows.columns, KNOWN]
        both = pl.concat(
            [kept.with_columns(pl.lit(True).alias(KNOWN)).select(shape), rows.with_columns(pl.lit(False).alias(KNOWN))]
        )
        ident = [KEY, *columns_of(rows)]
        others = [name for name in rows.columns if name not in (*ident, WEIGHT, FIRST_AT, LAST_AT)]
        when = [pl.col(FIRST_AT).min(), pl.col(LAST_AT).max()] if self.ordered else []
        sums = both.group_by(ident).agg(pl.col(WEIGHT).sum(), pl.col(KNOWN).any(), pl.col(others).first(), *when)
        return self.in_sessions(sums.filter(pl.col(WEIGHT) > 0))


def columns_of(rows: pl.DataFrame) -> list[str]:
    """The port's own columns; the binder gives those that it computes names with underscores, too."""
    return [name for name in rows.columns if not _internal(name)]


def _internal(name: str) -> bool:
    return name in _OWN or name.startswith(HASH)


def points_table(rows: pl.DataFrame, state: State) -> Table:
    """Where points are kept: filed by key, and by time within."""
    types = {name: dtype for name, dtype in rows.schema.items() if name not in (HASH, TIME)}
    return state.table("points", types, columns_of(rows), within=TIME)


def same_points(rows: pl.DataFrame, points: pl.DataFrame) -> Places:
    """For each row the number of the point that is the same row; -1 if there is none."""
    one, other = (part.with_columns(mixed(part[HASH], part[TIME]).alias(HASH)) for part in (rows, points))
    return numbered(one, other, columns_of(rows))


def mixed(hashes: pl.Series, numbers: pl.Series) -> pl.Series:
    """Hashes of a key and a number."""
    return hashes ^ (numbers * MIX)


def replace_points(before: pl.DataFrame, after: pl.DataFrame, table: Table) -> None:
    """The stored points `before` become those of `after`."""
    places = same_points(after, before)
    known = pl.Series(places >= 0)
    counted = [name for name in (WEIGHT, FIRST_AT, LAST_AT) if name in after.columns]
    moved = ~equal(before[places[places >= 0]], after.filter(known), counted)
    gone = before.filter(pl.Series(~there(before.height, places[places >= 0])))
    upserts = pl.concat([after.filter(~known), after.filter(known).filter(pl.Series(moved))])
    table.write(upserts, gone, after.height - before.height)


def _others(rows: pl.DataFrame) -> list[str]:
    """The hashes that go along."""
    return [name for name in rows.columns if _internal(name) and name not in (WEIGHT, SEQ, TIME)]
