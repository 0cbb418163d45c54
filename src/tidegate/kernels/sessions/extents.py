"""Where sessions lie: those that are open, filed by when they close, and for a while those that are closed for good."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import HASH
from tidegate.kernels.api import State, Table
from tidegate.kernels.frames import types_of
from tidegate.kernels.sessions.points import END, START

_KEY_HASH = "__k"


class Extents:
    """Per key the start and end of sessions. One that is closed is remembered for one gap longer."""

    def __init__(self, partition: Sequence[str], gap: int, lateness: int) -> None:
        self._ident = [*partition, START, END]
        self._gap, self._lateness = gap, lateness

    def due(self, line: int, state: State) -> pl.Series:
        """The hashes of keys with sessions that a line closes for good; those are open no more."""
        table = state.stored("open", self._ident)
        if table is None:
            return pl.Series(HASH, [], dtype=pl.Int64)
        hashes = table.between(None, line + 1)[_KEY_HASH].alias(HASH)
        if len(hashes):
            table.evict_below(line + 1)
        return hashes

    def move(self, before: pl.DataFrame, after: pl.DataFrame, state: State) -> None:
        """The open sessions `before` become those of `after` (both frames of points)."""
        old, new = self.each(before), self.each(after)
        gone = old.join(new, on=new.columns, how="anti", nulls_equal=True)
        come = new.join(old, on=new.columns, how="anti", nulls_equal=True)
        table = self._by_time("open", new, state)
        table.write(self._filed(come, 0), self._filed(gone, 0), come.height - gone.height)

    def close(self, over: pl.DataFrame, hashes: pl.Series, line: int, state: State) -> pl.DataFrame:
        """Remembers the sessions `over` as closed; gives all that are remembered of keys with these hashes."""
        each = self.each(over)
        closed = state.table("closed", types_of(each, self._ident), self._ident)
        known = closed.groups(hashes)
        closed.write(each, grown=each.height)
        self._by_time("closed_by_time", each, state).write(self._filed(each, self._gap), grown=each.height)
        both = pl.concat([known.select(each.columns), each])
        return both.filter(pl.col(END) + self._lateness + self._gap > line)

    def forget(self, line: int, state: State) -> None:
        """Forgets what was closed long ago."""
        index, closed = state.stored("closed_by_time", self._ident), state.stored("closed", self._ident)
        if index is None or closed is None:
            return
        old = index.between(None, line + 1)
        if old.height:
            closed.write(None, old.with_columns(pl.col(_KEY_HASH).alias(HASH)), -old.height)
            index.evict_below(line + 1)

    def ends(self, state: State) -> pl.DataFrame | None:
        """The open sessions."""
        table = state.stored("open", self._ident)
        return None if table is None else table.scan().select(self._ident)

    def each(self, points: pl.DataFrame) -> pl.DataFrame:
        """The sessions of points, each once."""
        return points.select(HASH, *self._ident).unique(maintain_order=True)

    def _by_time(self, name: str, sessions: pl.DataFrame, state: State) -> Table:
        return state.table(name, types_of(sessions, self._ident), self._ident, within=_KEY_HASH)

    def _filed(self, sessions: pl.DataFrame, later: int) -> pl.DataFrame:
        """Filed by the time at which they close, or are forgotten."""
        filed = pl.col(END) + self._lateness + later
        return sessions.with_columns(pl.col(HASH).alias(_KEY_HASH), filed.alias(HASH))
