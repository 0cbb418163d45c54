"""The limit `max_groups`: of a GROUP BY, in each of its windows, or of its sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.core.render import json_row
from tidegate.kernels.aggregates.partial import KIND
from tidegate.kernels.api import RowError, State, Table
from tidegate.kernels.frames import align, find_rows, row_mask, types_of
from tidegate.kernels.session_points import KEY, TIME
from tidegate.kernels.state.sorting import Mask

EARLIEST = "__earliest"
"""In partial results: the earliest time of their rows."""

_LIVE, _ROOM = "__live", "__room"


@dataclass(frozen=True)
class GroupLimit:
    """At most `most` groups by `keys`, or per window if `window` names its columns. Among new groups of a step those
    with the earlier time are admitted first, then those with the smaller key. Existing groups stay."""

    keys: tuple[str, ...]
    most: int
    window: tuple[str, ...] = ()
    window_key_of: Callable[[pl.Series], pl.Series] | None = None

    def admit(self, rows: pl.DataFrame, state: State) -> tuple[pl.DataFrame, list[RowError]]:
        """The partial results of groups within the limit, and an error for each other group."""
        groups = self._groups(rows)
        stored, before = self._before(groups, state)
        fresh = pl.Series(~stored) & (groups[WEIGHT] != 0)
        live = self._live(groups, state)
        order = [*self.window, EARLIEST, *(name for name in self.keys if name not in self.window)]
        ranked = groups.with_columns(fresh.alias("__fresh"), live).with_row_index("__row")
        ranked = ranked.filter("__fresh").sort(order, nulls_last=False)
        inserted = pl.col(WEIGHT) > 0
        rank = inserted.cast(pl.Int64).cum_sum().over(self.window) if self.window else inserted.cast(pl.Int64).cum_sum()
        ranked = ranked.with_columns((inserted & (rank + pl.col(_LIVE) <= self.most)).alias(_ROOM))
        rejected = ranked.filter(~pl.col(_ROOM))
        if self.window:
            deleted = stored & ((before + groups[WEIGHT]) == 0).to_numpy()
            self._count(groups, ranked.filter(_ROOM)["__row"].to_numpy(), deleted, live, state)
        if rejected.is_empty():
            return rows, []
        return rows.filter(pl.Series(find_rows(rows, rejected, self.keys) < 0)), [
            self._error(row) for row in rejected.iter_rows(named=True)
        ]

    def evict_below(self, limit: int | None, state: State) -> None:
        table = state.find_table("counts", self.window)
        if table is not None:
            table.evict_below(limit)

    def _groups(self, rows: pl.DataFrame) -> pl.DataFrame:
        sums = rows.filter(pl.col(KIND) == 0)
        if EARLIEST not in sums.columns:
            sums = sums.with_columns(pl.lit(0, pl.Int64).alias(EARLIEST))
        return sums.group_by([HASH, *self.keys], maintain_order=True).agg(pl.col(WEIGHT).sum(), pl.col(EARLIEST).min())

    def _before(self, groups: pl.DataFrame, state: State) -> tuple[Mask, pl.Series]:
        """Which groups are stored, and the number of their rows before the step."""
        table = state.find_table("groups", self.keys)
        if table is None:
            return np.zeros(groups.height, dtype=np.bool_), pl.repeat(0, groups.height, dtype=pl.Int64, eager=True)
        indexes, stored = table.match(groups)
        weights = align(groups.height, indexes, stored.select(WEIGHT))[WEIGHT].fill_null(0)
        return row_mask(groups.height, indexes), weights

    def _live(self, groups: pl.DataFrame, state: State) -> pl.Series:
        """For each group the number of existing groups that count against its limit."""
        if not self.window:
            table = state.find_table("groups", self.keys)
            live = 0 if table is None else table.count
            return pl.repeat(live, groups.height, dtype=pl.Int64, eager=True).alias(_LIVE)
        counts = state.table("counts", {**types_of(groups, self.window), _LIVE: pl.Int64()}, self.window)
        indexes, stored = counts.match(self._windows(groups))
        return align(groups.height, indexes, stored.select(_LIVE))[_LIVE].fill_null(0)

    def _count(self, groups: pl.DataFrame, new: np.ndarray, deleted: Mask, live: pl.Series, state: State) -> None:
        """Stores the number of groups of each window."""
        change = np.zeros(groups.height, dtype=np.int64)
        change[new] += 1
        change[deleted] -= 1
        moved = self._windows(groups).with_columns(pl.Series("__change", change), live)
        sums = moved.group_by(HASH, *self.window).agg(pl.col(_LIVE).first(), pl.col("__change").sum())
        sums = sums.filter(pl.col("__change") != 0).with_columns(pl.col(_LIVE) + pl.col("__change"))
        state.table("counts", {}, self.window).write(sums.drop("__change"))

    def _windows(self, groups: pl.DataFrame) -> pl.DataFrame:
        assert self.window_key_of is not None
        return groups.select(self.window_key_of(groups[HASH]).alias(HASH), *self.window)

    def _error(self, row: Mapping[str, Any]) -> RowError:
        text = json_row({name: row[name] for name in self.keys})
        where = "the window has" if self.window else "there are"
        return RowError("", "GROUP_CAP", f"{where} {self.most} groups already", text, abs(row[WEIGHT]))


_ALL = "all_keys"


@dataclass(frozen=True)
class SessionLimit:
    """At most `most` keys with open sessions. Of the keys that are new in a step those with the earlier time are let
    in, then the smaller ones. Existing keys stay admitted; a key whose sessions are all closed no longer counts."""

    partition: tuple[str, ...]
    most: int

    def admit(
        self, net: pl.DataFrame, old: pl.DataFrame, before: pl.DataFrame, state: State
    ) -> tuple[pl.DataFrame, list[RowError]]:
        """The rows of keys within the limit, and an error for each other row. `old` are the points of the keys that the
        step touches, `before` those of them that are not closed now."""
        new = net.filter(~pl.col(KEY).is_in(before[KEY].unique().implode()), pl.col(WEIGHT) > 0)
        if new.is_empty():
            return net, []
        free = self.most - (self._live(state) - old[KEY].n_unique() + before[KEY].n_unique())
        keys = (
            new.group_by(KEY, *self.partition).agg(pl.col(TIME).min(), pl.col(WEIGHT).sum()).sort(TIME, *self.partition)
        )
        rejected = keys.slice(max(free, 0))
        admitted = net.filter(~pl.col(KEY).is_in(rejected[KEY].implode()))
        return admitted, [self._error(row) for row in rejected.rows(named=True)]

    def count(self, old: pl.DataFrame, after: pl.DataFrame, state: State) -> None:
        """Stores the number of keys."""
        change = after[KEY].n_unique() - old[KEY].n_unique()
        if change:
            live = pl.Series(_LIVE, [self._live(state) + change], dtype=pl.Int64)
            self._table(state).write(_row().with_columns(live))

    def _live(self, state: State) -> int:
        stored = self._table(state).lookup(_row())
        return 0 if stored.is_empty() else int(stored[_LIVE][0])

    def _table(self, state: State) -> Table:
        return state.table("live", {_ALL: pl.Int64(), _LIVE: pl.Int64()}, (_ALL,))

    def _error(self, row: dict[str, Any]) -> RowError:
        text = json_row({name: row[name] for name in self.partition})
        return RowError("", "GROUP_CAP", f"there are {self.most} groups already", text, row[WEIGHT])


def _row() -> pl.DataFrame:
    """The one row of the count."""
    return pl.DataFrame({HASH: [0], _ALL: [0]}, schema={HASH: pl.Int64, _ALL: pl.Int64})
