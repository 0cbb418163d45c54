"""Rows that an interval join emits singly (padded rows of an outer side, rows of a semi or anti join), and the ids that
link a retracted padding to the row that corrects it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.api import State
from tidegate.kernels.joins.incremental import MATCHES
from tidegate.kernels.joins.interval_match import Touched
from tidegate.kernels.joins.interval_side import ARRIVED_AT, OUT, Limits, Side, numbers
from tidegate.kernels.joins.pairs import Pairs
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.sorting import Indexes, Mask


class SingleRows(NamedTuple):
    """Of touched rows, before and after the step: the number of matches, whether the row is emitted singly, and its
    weight."""

    matches: tuple[Ints, Ints]
    out: tuple[Mask, Mask]
    weights: tuple[Ints, Ints]


def single_rows(rows: Touched, limits: Limits) -> SingleRows:
    """How touched rows of a side are emitted singly, before and after the step."""
    side, matches_before = rows.side, numbers(rows.frame, MATCHES)
    matches_after = matches_before + rows.new_matches
    if not side.loses:
        matches_after = np.where(matches_before > 0, matches_before, np.minimum(matches_after, 1))
    if side.emits_matched:
        out = (matches_before > 0, matches_after > 0)
    else:
        left: Mask = rows.frame[OUT].to_numpy()
        out = (left, (matches_after <= 0) & (rows.weights != 0) & _due(rows, limits))
    return SingleRows((matches_before, matches_after), out, (rows.before * out[0], rows.weights * out[1]))


def rows_to_store(rows: Touched, singles: SingleRows) -> pl.DataFrame:
    """The rows as they are to be stored."""
    columns = [pl.Series(MATCHES, singles.matches[1])]
    return rows.frame.with_columns(columns if rows.side.emits_matched else [*columns, pl.Series(OUT, singles.out[1])])


def update_lists(rows: Touched, singles: SingleRows, state: State) -> None:
    """Update the lists of waiting rows: of the touched rows, those that wait now are listed."""
    if not rows.side.lists:
        return
    states = zip((rows.before != 0, rows.weights != 0), singles.matches, singles.out, strict=True)
    waited, waits = (exists & (matches <= 0) & ~out for exists, matches, out in states)
    added, removed = (rows.frame.filter(pl.Series(mask)) for mask in (waits & ~waited, waited & ~waits))
    for waiting in rows.side.lists:
        waiting.change(added, removed, state)


def release_rows(side: Side, limits: Limits, reached: Ints, state: State) -> pl.DataFrame | None:
    """Removes the rows that are due from the lists, and returns those that were not touched: rows with an order key
    among `reached` were."""
    rows = None
    due = [entries for waiting in side.lists if (entries := waiting.due(limits, state)) is not None]
    if due:
        entries = due[0] if len(due) == 1 else pl.concat(due).unique()
        untouched = ~np.isin(numbers(entries, HASH), reached)
        rows = _mark_emitted(side, entries.filter(pl.Series(untouched, dtype=pl.Boolean)), state)
    for waiting in side.lists:
        if rows is not None and len(side.lists) > 1:
            waiting.change(rows.clear(), rows, state)
        waiting.evict(limits, state)
    return rows


def _mark_emitted(side: Side, entries: pl.DataFrame, state: State) -> pl.DataFrame | None:
    """Mark the stored rows of list entries as emitted, and return them."""
    table = side.find_table(state)
    if table is None or entries.is_empty():
        return None
    rows = table.lookup(entries)
    table.write(rows.with_columns(pl.lit(True).alias(OUT)), grown=0)
    return rows


def next_us(side: Side, waits: int | None, delay: int | None, state: State) -> int | None:
    """The processing time at which the next row of a side is due: `waits` after its time or `delay` after its arrival,
    where these are known."""
    times = []
    for waiting in side.lists:
        table, after = waiting.find_table(state), delay if waiting.by == ARRIVED_AT else waits
        if table is not None and after is not None and table.count and (low := table.lowest()) is not None:
            times.append(low + after)
    return min(times, default=None)


def _due(rows: Touched, limits: Limits) -> Mask:
    arrived = None if rows.side.arrived is None else numbers(rows.frame, rows.side.arrived)
    return limits.leave(numbers(rows.frame, rows.side.time), arrived)


_LOW = (1 << 32) - 1
_NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass
class Changes:
    """Changes of the weights of output rows, one per row. `amounts` of the changes of `rows` are emitted separately,
    with `correction_ids`."""

    weights: Ints
    rows: Indexes = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    amounts: Ints = field(default_factory=lambda: _NONE)
    correction_ids: Ints = field(default_factory=lambda: _NONE)

    def assign_ids(self, rows: Indexes, amounts: Ints, correction_ids: Ints) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.amounts = np.concatenate([self.amounts, amounts])
        self.correction_ids = np.concatenate([self.correction_ids, correction_ids])

    def split(self) -> tuple[Indexes, Ints, Ints]:
        """Indices of rows with their changes and correction ids (0: none); a row's change with an id is split off the
        rest."""
        left = self.weights.copy()
        np.subtract.at(left, self.rows, self.amounts)
        plain = np.flatnonzero(left)
        correction_ids = np.concatenate([np.zeros(len(plain), dtype=np.int64), self.correction_ids])
        return np.concatenate([plain, self.rows]), np.concatenate([left[plain], self.amounts]), correction_ids


class CorrectionIds:
    """Ids for the corrections of a step. Their low half is a part of the lowest hash of the step's rows, so ids of
    different buckets differ; a replayed step yields the same ids."""

    def __init__(self, lowest_hash: int) -> None:
        self._low, self._count = lowest_hash & _LOW, 0

    def next(self, count: int) -> Ints:
        first = self._count + 1
        self._count += count
        return (np.arange(first, first + count, dtype=np.int64) << 32) | self._low


def correct(
    one: tuple[Touched, Changes],
    weights: tuple[Ints, Ints],
    other: Touched,
    matched: tuple[Pairs, Changes],
    correction_ids: CorrectionIds,
) -> None:
    """Links the corrections between single rows of one side (with `weights` before and after) and pairs.

    The first match of a row retracts its padding: of several it is the one with the smallest row of the other side.
    Likewise for the retracted pairs where a row has lost its last match and is padded again.
    """
    (rows, singly), (pairs, changes), (before, after) = one, matched, weights
    lost_padding = np.where((before > 0) & (after == 0), np.minimum(before, rows.weights), 0)
    got_padding = np.where((before == 0) & (after > 0), np.minimum(after, rows.before), 0)
    own, others = pairs if rows.side.number == 0 else (pairs.right, pairs.left)
    amounts = (np.maximum(lost_padding, 0) - np.maximum(got_padding, 0))[own]
    amounts[changes.rows] = 0
    chosen = _smallest(np.flatnonzero(amounts * changes.weights > 0), (own, rows), (others, other))
    ids = correction_ids.next(len(chosen))
    singly.assign_ids(own[chosen], -amounts[chosen], ids)
    changes.assign_ids(chosen, amounts[chosen], ids)


def drop_unpaired_ids(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Output rows with ids only where both rows of a correction are emitted: where one is cancelled by an equal row,
    the other corrects nothing."""
    if rows[name].null_count() == rows.height:
        return rows
    columns = [column for column in rows.columns if column not in (name, WEIGHT)]
    both = (pl.col(WEIGHT).min() < 0) & (pl.col(WEIGHT).max() > 0)
    lost = rows.filter(both.over(columns) if columns else both)[name].drop_nulls()
    paired = pl.when(~pl.col(name).is_in(lost.implode())).then(pl.col(name))
    return rows.with_columns(paired.alias(name)) if len(lost) else rows


def _smallest(pairs: Indexes, one: tuple[Indexes, Touched], other: tuple[Indexes, Touched]) -> Indexes:
    """Of the pairs of each row of one side that with the smallest row of the other, by time and then by columns; in the
    order of the rows themselves."""
    if not len(pairs):
        return pairs
    keys = [_sort_keys(rows, indexes[pairs], name) for name, (indexes, rows) in (("a", one), ("b", other))]
    candidates = pl.concat([pl.DataFrame({"pair": pairs, "row": one[0][pairs]}), *keys], how="horizontal")
    ordered = candidates.sort([name for frame in keys for name in frame.columns])
    chosen: Indexes = ordered.unique("row", keep="first", maintain_order=True)["pair"].to_numpy()
    return chosen


def _sort_keys(rows: Touched, indexes: Indexes, prefix: str) -> pl.DataFrame:
    names = [rows.side.time, *(name for name in rows.side.columns if name != rows.side.time)]
    return rows.frame[indexes].select(pl.col(name).alias(f"{prefix}{number}") for number, name in enumerate(names))
