"""How many groups there may be: of a GROUP BY, or in each of its windows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.aggregates.partial import KIND
from tidegate.kernels.api import RowError, State
from tidegate.kernels.frames import aligned, numbered, types_of
from tidegate.kernels.refusals import plain
from tidegate.kernels.state.search import Mask
from tidegate.kernels.weights import there

EARLIEST = "__earliest"
"""In partial results: the earliest time of their rows."""

_LIVE, _ROOM = "__live", "__room"


@dataclass(frozen=True)
class Cap:
    """At most `most` groups by `keys`; with `window`, in each window by itself. Of the groups that are new in a step
    those with the earlier time are let in, then those with the smaller key. Groups that are there go on."""

    keys: tuple[str, ...]
    most: int
    window: tuple[str, ...] = ()
    filed: Callable[[pl.Series], pl.Series] | None = None

    def admitted(self, rows: pl.DataFrame, state: State) -> tuple[pl.DataFrame, list[RowError]]:
        """Partial results without those of groups that are too many, and what is said of these."""
        groups = self._groups(rows)
        stored, before = self._before(groups, state)
        fresh = pl.Series(~stored) & (groups[WEIGHT] != 0)
        live = self._live(groups, state)
        order = [*self.window, EARLIEST, *(name for name in self.keys if name not in self.window)]
        ranked = groups.with_columns(fresh.alias("__fresh"), live).with_row_index("__row")
        ranked = ranked.filter("__fresh").sort(order, nulls_last=False)
        comes = pl.col(WEIGHT) > 0
        rank = comes.cast(pl.Int64).cum_sum().over(self.window) if self.window else comes.cast(pl.Int64).cum_sum()
        ranked = ranked.with_columns((comes & (rank + pl.col(_LIVE) <= self.most)).alias(_ROOM))
        refused = ranked.filter(~pl.col(_ROOM))
        if self.window:
            goes = stored & ((before + groups[WEIGHT]) == 0).to_numpy()
            self._count(groups, ranked.filter(_ROOM)["__row"].to_numpy(), goes, live, state)
        if refused.is_empty():
            return rows, []
        return rows.filter(pl.Series(numbered(rows, refused, self.keys) < 0)), [
            self._error(row) for row in refused.iter_rows(named=True)
        ]

    def forget_below(self, limit: int | None, state: State) -> None:
        table = state.stored("counts", self.window)
        if table is not None:
            table.evict_below(limit)

    def _groups(self, rows: pl.DataFrame) -> pl.DataFrame:
        sums = rows.filter(pl.col(KIND) == 0)
        if EARLIEST not in sums.columns:
            sums = sums.with_columns(pl.lit(0, pl.Int64).alias(EARLIEST))
        return sums.group_by([HASH, *self.keys], maintain_order=True).agg(pl.col(WEIGHT).sum(), pl.col(EARLIEST).min())

    def _before(self, groups: pl.DataFrame, state: State) -> tuple[Mask, pl.Series]:
        """Which groups are stored, and the number of their rows."""
        table = state.stored("groups", self.keys)
        if table is None:
            return np.zeros(groups.height, dtype=np.bool_), pl.repeat(0, groups.height, dtype=pl.Int64, eager=True)
        places, found = table.match(groups)
        return there(groups.height, places), aligned(groups.height, places, found.select(WEIGHT))[WEIGHT].fill_null(0)

    def _live(self, groups: pl.DataFrame, state: State) -> pl.Series:
        """For each group how many there are beside it."""
        if not self.window:
            table = state.stored("groups", self.keys)
            live = 0 if table is None else table.count
            return pl.repeat(live, groups.height, dtype=pl.Int64, eager=True).alias(_LIVE)
        counts = state.table("counts", {**types_of(groups, self.window), _LIVE: pl.Int64()}, self.window)
        places, found = counts.match(self._windows(groups))
        return aligned(groups.height, places, found.select(_LIVE))[_LIVE].fill_null(0)

    def _count(self, groups: pl.DataFrame, come: np.ndarray, goes: Mask, live: pl.Series, state: State) -> None:
        """Keeps how many groups each window has now."""
        change = np.zeros(groups.height, dtype=np.int64)
        change[come] += 1
        change[goes] -= 1
        moved = self._windows(groups).with_columns(pl.Series("__change", change), live)
        sums = moved.group_by(HASH, *self.window).agg(pl.col(_LIVE).first(), pl.col("__change").sum())
        sums = sums.filter(pl.col("__change") != 0).with_columns(pl.col(_LIVE) + pl.col("__change"))
        state.table("counts", {}, self.window).write(sums.drop("__change"))

    def _windows(self, groups: pl.DataFrame) -> pl.DataFrame:
        assert self.filed is not None
        return groups.select(self.filed(groups[HASH]).alias(HASH), *self.window)

    def _error(self, row: Mapping[str, Any]) -> RowError:
        text = json.dumps({name: plain(row[name]) for name in self.keys}, ensure_ascii=False)
        where = "the window has" if self.window else "there are"
        return RowError("", "GROUP_CAP", f"{where} {self.most} groups already", text, abs(row[WEIGHT]))
