"""ORDER BY ... LIMIT and ROW_NUMBER() <= n: the first rows of each partition, maintained incrementally.

Each partition has a *window* of its first rows, somewhat more than are output, and a *rest* in another table. A step
reads and sorts windows only; the rest is read when deletions have used up a window. If the input never retracts, the
window has exactly the rows up to the last rank of the output, and there is no rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.specs import TopNSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State
from tidegate.kernels.evicting import StateTable
from tidegate.kernels.frames import align, consolidate, find_rows, nonempty, normalise, types_of
from tidegate.kernels.ranking import Ints, Ranking, difference, sort_rows
from tidegate.kernels.state.sorting import Mask

ROW_HASH = "__h_row"
"""The hash of the whole row, to look up a row in a large partition."""

PART, OLD, HOME, LIVE, COUNT = "__part", "__old", "__home", "__live", "__rest"
NOWHERE, WINDOW, REST = 0, 1, 2
LEAST_SLACK = 16


class TopN(NeverLate):
    """The kernel. Output: the rows of the top, with their rank if the spec names a column for it."""

    def __init__(self, spec: TopNSpec) -> None:
        self._spec = spec
        self._columns = list(spec.columns)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        hash_columns = [name for name in (HASH, ROW_HASH) if name in rows.columns]
        return consolidate(normalise(rows, self._columns), [*hash_columns, *self._columns])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        rows = None if inputs[0] is None else nonempty(self.combine(0, inputs[0]))
        if rows is None:
            return Delta()
        step = _AppendStep if self._spec.append_only else _TopNStep
        return Delta(step(self._spec, rows, state).changes())

    def tables(self) -> list[StateTable]:
        counts = StateTable("parts", self._spec.partition, counted=False)
        return [StateTable("window", self._columns), StateTable("rest", self._columns), counts]

    def content(self, state: State) -> pl.DataFrame | None:
        window = state.find_table("window", self._columns)
        if window is None:
            return None
        rows = window.scan()
        parts = rows.select(HASH, *self._spec.partition).unique()
        part = pl.Series(PART, find_rows(rows, parts, self._spec.partition), dtype=pl.Int64)
        rows = sort_rows(rows.with_columns(part), PART, self._spec)
        weights = rows[WEIGHT].to_numpy()
        return difference(rows, Ranking(rows, PART, self._spec), np.zeros_like(weights), weights, self._spec)


class _TopNStep:
    """One step over the partitions that it touches.

    `parts` are these, `rows` their known rows in order: the weight before (`__old`) and its change (`__w`), where the
    row is stored (`__home`), and whether all rows before it are known, so that its rank is (`__live`).
    """

    def __init__(self, spec: TopNSpec, delta: pl.DataFrame, state: State) -> None:
        self._spec, self._columns = spec, list(spec.columns)
        within = ROW_HASH if ROW_HASH in delta.columns else None
        types = {**types_of(delta, self._columns), WEIGHT: pl.Int64()}
        self._window = state.table("window", types, self._columns, within)
        self._rest = state.table("rest", types, self._columns, within)
        self._counts = state.table("parts", {**types_of(delta, spec.partition), COUNT: pl.Int64()}, spec.partition)
        self._hash_columns = [HASH] if within is None else [HASH, within]
        self._parts = delta.select(HASH, *spec.partition).unique()
        self._resting = self._before()
        self._rows = self._candidates(delta)

    def changes(self) -> pl.DataFrame | None:
        resting = self._settle_outside()
        lacking = (resting > 0) & ~self._suffices()
        if lacking.any():
            self._refill(np.flatnonzero(lacking))
        self._write(self._homes(lacking))
        live = self._rows[LIVE].to_numpy()
        old, new = np.where(live, self._old(), 0), np.where(live, self._new(), 0)
        return difference(self._rows, Ranking(self._rows, PART, self._spec), old, new, self._spec)

    def _before(self) -> Ints:
        """How many rows of each partition are in the rest."""
        indexes, stored = self._counts.match(self._parts)
        counts: Ints = align(self._parts.height, indexes, stored.select(COUNT))[COUNT].fill_null(0).to_numpy()
        return counts

    def _candidates(self, delta: pl.DataFrame) -> pl.DataFrame:
        """The windows of the partitions and the changes, each row once, in order."""
        window = self._numbered(self._window.groups(self._parts[HASH]))
        stored_window = _tagged(window.rename({WEIGHT: OLD}).with_columns(pl.lit(0, pl.Int64).alias(WEIGHT)), WINDOW)
        fresh = _tagged(self._numbered(delta).with_columns(pl.lit(0, pl.Int64).alias(OLD)), NOWHERE)
        both = pl.concat([stored_window, fresh.select(stored_window.columns)])
        once = both.group_by(PART, *self._hash_columns, *self._columns).agg(
            pl.col(OLD, WEIGHT).sum(), pl.col(HOME).max()
        )
        rows = sort_rows(once, PART, self._spec)
        return rows.with_columns(pl.Series(LIVE, self._inside(rows)))

    def _inside(self, rows: pl.DataFrame) -> Mask:
        """A mask of the rows not after the last row of their window; all rows of partitions without a rest."""
        part, position = rows[PART].to_numpy(), np.arange(rows.height)
        known = (rows[HOME] == WINDOW).to_numpy()
        last = np.full(self._parts.height, -1)
        np.maximum.at(last, part[known], position[known])
        inside: Mask = (self._resting[part] == 0) | (position <= last[part])
        return inside

    def _settle_outside(self) -> Ints:
        """Look up changed rows in the rest; returns how many rows of each partition are in the rest afterwards."""
        outside = np.flatnonzero(~self._rows[LIVE].to_numpy())
        indexes, stored = self._rest.match(self._rows[outside])
        old, home = self._old().copy(), self._rows[HOME].to_numpy().copy()
        old[outside[indexes]], home[outside[indexes]] = stored[WEIGHT].to_numpy(), REST
        self._rows = self._rows.with_columns(pl.Series(OLD, old), pl.Series(HOME, home))
        grown = (self._new() > 0).astype(np.int64) - (old > 0)
        resting = self._resting.copy()
        np.add.at(resting, self._part()[outside], grown[outside])
        return resting

    def _suffices(self) -> Mask:
        """A mask of the partitions whose window contains the whole top."""
        needed = self._spec.offset + self._spec.limit
        weights = np.where(self._rows[LIVE].to_numpy(), np.maximum(self._new(), 0), 0)
        reached = np.zeros(self._parts.height, dtype=np.int64)
        if self._spec.function == "row_number":
            np.add.at(reached, self._part(), weights)
            return np.greater_equal(reached, needed)
        ranks = Ranking(self._rows, PART, self._spec).ranks(weights)
        np.maximum.at(reached, self._part()[weights > 0], ranks[weights > 0])
        return np.greater(reached, needed)

    def _refill(self, parts: Ints) -> None:
        """Load all rows of some partitions."""
        rest_rows = self._numbered(self._rest.groups(self._parts[parts][HASH]))
        rest_rows = rest_rows.filter(pl.Series(np.isin(rest_rows[PART].to_numpy(), parts)))
        rest_rows = rest_rows.filter(
            pl.Series(find_rows(rest_rows, self._rows, self._columns, self._hash_columns[-1]) < 0)
        )
        rest = _tagged(rest_rows.rename({WEIGHT: OLD}).with_columns(pl.lit(0, pl.Int64).alias(WEIGHT)), REST)
        rest = rest.with_columns(pl.lit(True).alias(LIVE)).select(self._rows.columns)
        known = self._rows.with_columns(pl.col(LIVE) | pl.Series(np.isin(self._part(), parts)))
        self._rows = sort_rows(pl.concat([known, rest]), PART, self._spec)

    def _homes(self, refilled: Mask) -> Ints:
        """The table of each row after the step. A window that was refilled, or has grown too long, is cut."""
        live, present, part = self._rows[LIVE].to_numpy(), self._new() > 0, self._part()
        needed = self._spec.offset + self._spec.limit
        slack = max(LEAST_SLACK, needed)
        ranks = Ranking(self._rows, PART, self._spec).ranks(np.where(live & present, self._new(), 0))
        longest = np.zeros(self._parts.height, dtype=np.int64)
        np.maximum.at(longest, part[live & present], ranks[live & present])
        cut = refilled | (longest > needed + 2 * slack)
        inside = live & ~(cut[part] & (ranks > needed + slack))
        return np.where(present, np.where(inside, WINDOW, REST), NOWHERE)

    def _write(self, homes: Ints) -> None:
        before, old, new = self._rows[HOME].to_numpy(), self._old(), self._new()
        rows = self._rows.select(*self._hash_columns, *self._columns, pl.Series(WEIGHT, new))
        for table, home in ((self._window, WINDOW), (self._rest, REST)):
            written = (homes == home) & ((before != home) | (old != new))
            removed = (before == home) & (homes != home)
            grown = int(((homes == home) & (before != home)).sum()) - int(removed.sum())
            table.write(rows.filter(pl.Series(written)), rows.filter(pl.Series(removed)), grown)
        resting = self._resting.copy()
        np.add.at(resting, self._part(), (homes == REST).astype(np.int64) - (before == REST))
        self._write_counts(resting)

    def _write_counts(self, resting: Ints) -> None:
        rows = self._parts.with_columns(pl.Series(COUNT, resting))
        changed = resting != self._resting
        removed = rows.filter(pl.Series(changed & (resting == 0)))
        grown = int(((self._resting == 0) & (resting > 0)).sum()) - removed.height
        self._counts.write(rows.filter(pl.Series(changed & (resting > 0))), removed, grown)

    def _numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of our partitions, with the partition's number."""
        part = find_rows(rows, self._parts, self._spec.partition)
        return rows.with_columns(pl.Series(PART, part, dtype=pl.Int64)).filter(pl.col(PART) >= 0)

    def _part(self) -> Ints:
        part: Ints = self._rows[PART].to_numpy()
        return part

    def _old(self) -> Ints:
        old: Ints = self._rows[OLD].to_numpy()
        return old

    def _new(self) -> Ints:
        new: Ints = self._old() + self._rows[WEIGHT].to_numpy()
        return new


class _AppendStep(_TopNStep):
    """A step of rows that are never retracted: a row behind the top stays behind it."""

    def changes(self) -> pl.DataFrame | None:
        ranking, old, new = Ranking(self._rows, PART, self._spec), self._old(), self._new()
        kept = ranking.ranks(new) <= self._spec.offset + self._spec.limit
        self._write(np.where(kept, WINDOW, NOWHERE))
        return difference(self._rows, ranking, old, new, self._spec)

    def _before(self) -> Ints:
        """None: what a version that kept all rows has put into the rest is never read again."""
        for table in (self._rest, self._counts):
            table.evict_below(None)
        return np.zeros(self._parts.height, dtype=np.int64)


def _tagged(rows: pl.DataFrame, home: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(home, pl.Int64).alias(HOME))
