"""How many keys may have sessions that are open."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.api import RowError, State, Table
from tidegate.kernels.refusals import plain
from tidegate.kernels.sessions.points import KEY, TIME

_ALL, _LIVE = "all_keys", "__live"


@dataclass(frozen=True)
class Room:
    """At most `most` keys with open sessions. Of the keys that are new in a step those with the earlier time are let
    in, then the smaller ones. Keys that are there go on, and one whose sessions are all closed makes room."""

    partition: tuple[str, ...]
    most: int

    def admitted(
        self, net: pl.DataFrame, old: pl.DataFrame, before: pl.DataFrame, state: State
    ) -> tuple[pl.DataFrame, list[RowError]]:
        """Rows without those of keys that are too many, and what is said of these. `old` are the points of the keys
        that the step touches, `before` those of them that are not closed now."""
        new = net.filter(~pl.col(KEY).is_in(before[KEY].unique().implode()), pl.col(WEIGHT) > 0)
        if new.is_empty():
            return net, []
        free = self.most - (self._live(state) - old[KEY].n_unique() + before[KEY].n_unique())
        keys = (
            new.group_by(KEY, *self.partition).agg(pl.col(TIME).min(), pl.col(WEIGHT).sum()).sort(TIME, *self.partition)
        )
        refused = keys.slice(max(free, 0))
        left = net.filter(~pl.col(KEY).is_in(refused[KEY].implode()))
        return left, [self._error(row) for row in refused.rows(named=True)]

    def count(self, old: pl.DataFrame, after: pl.DataFrame, state: State) -> None:
        """Keeps how many keys there are now."""
        change = after[KEY].n_unique() - old[KEY].n_unique()
        if change:
            live = pl.Series(_LIVE, [self._live(state) + change], dtype=pl.Int64)
            self._table(state).write(_row().with_columns(live))

    def _live(self, state: State) -> int:
        found = self._table(state).lookup(_row())
        return 0 if found.is_empty() else int(found[_LIVE][0])

    def _table(self, state: State) -> Table:
        return state.table("live", {_ALL: pl.Int64(), _LIVE: pl.Int64()}, (_ALL,))

    def _error(self, row: dict[str, Any]) -> RowError:
        text = json.dumps({name: plain(row[name]) for name in self.partition}, ensure_ascii=False)
        return RowError("", "GROUP_CAP", f"there are {self.most} groups already", text, row[WEIGHT])


def _row() -> pl.DataFrame:
    """The one row of the count."""
    return pl.DataFrame({HASH: [0], _ALL: [0]}, schema={HASH: pl.Int64, _ALL: pl.Int64})
