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
from tidegate.kernels.joins.interval_side import CAME, OUT, Limits, Side, numbers
from tidegate.kernels.joins.pairs import Pairs
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.sorting import Mask, Places


class SingleRows(NamedTuple):
    """Of touched rows, before and after the step: the number of matches, whether the row is emitted singly, and its
    weight."""

    matches: tuple[Ints, Ints]
    out: tuple[Mask, Mask]
    weights: tuple[Ints, Ints]


def single_rows(rows: Touched, limits: Limits) -> SingleRows:
    """What touched rows of a side do by themselves."""
    side, met = rows.side, numbers(rows.frame, MATCHES)
    meets = met + rows.found
    if not side.loses:
        meets = np.where(met > 0, met, np.minimum(meets, 1))
    if side.meets:
        out = (met > 0, meets > 0)
    else:
        left: Mask = rows.frame[OUT].to_numpy()
        out = (left, (meets <= 0) & (rows.weights != 0) & _due(rows, limits))
    return SingleRows((met, meets), out, (rows.before * out[0], rows.weights * out[1]))


def rows_to_store(rows: Touched, found: SingleRows) -> pl.DataFrame:
    """The rows as they are to be stored."""
    columns = [pl.Series(MATCHES, found.matches[1])]
    return rows.frame.with_columns(columns if rows.side.meets else [*columns, pl.Series(OUT, found.out[1])])


def update_lists(rows: Touched, found: SingleRows, state: State) -> None:
    """Lists the touched rows that wait now, and only those."""
    if not rows.side.lists:
        return
    there = rows.before != 0, rows.weights != 0
    waited, waits = (there & (met <= 0) & ~out for there, met, out in zip(there, found.matches, found.out, strict=True))
    come, gone = (rows.frame.filter(pl.Series(mask)) for mask in (waits & ~waited, waited & ~waits))
    for waiting in rows.side.lists:
        waiting.change(come, gone, state)


def release_rows(side: Side, limits: Limits, reached: Ints, state: State) -> pl.DataFrame | None:
    """Removes the rows that are due from the lists, and returns those that were not touched: rows with an order key
    among `reached` were."""
    rows = None
    due = [entries for waiting in side.lists if (entries := waiting.due(limits, state)) is not None]
    if due:
        entries = due[0] if len(due) == 1 else pl.concat(due).unique()
        untouched = ~np.isin(numbers(entries, HASH), reached)
        rows = _let_out(side, entries.filter(pl.Series(untouched, dtype=pl.Boolean)), state)
    for waiting in side.lists:
        if rows is not None and len(side.lists) > 1:
            waiting.change(rows.clear(), rows, state)
        waiting.evict(limits, state)
    return rows


def _let_out(side: Side, entries: pl.DataFrame, state: State) -> pl.DataFrame | None:
    """The stored rows of entries; from now on they are out."""
    table = side.find_table(state)
    if table is None or entries.is_empty():
        return None
    rows = table.lookup(entries)
    table.write(rows.with_columns(pl.lit(True).alias(OUT)), grown=0)
    return rows


def next_us(side: Side, waits: int | None, delay: int | None, state: State) -> int | None:
    """The processing time at which the next row of a side is due: `waits` after its time or `delay` after its arrival,
    where these are known."""
    found = []
    for waiting in side.lists:
        table, after = waiting.find_table(state), delay if waiting.by == CAME else waits
        if table is not None and after is not None and table.count and (low := table.lowest()) is not None:
            found.append(low + after)
    return min(found, default=None)


def _due(rows: Touched, limits: Limits) -> Mask:
    came = None if rows.side.came is None else numbers(rows.frame, rows.side.came)
    return limits.leave(numbers(rows.frame, rows.side.time), came)


_LOW = (1 << 32) - 1
_NONE: Ints = np.empty(0, dtype=np.int64)


@dataclass
class Changes:
    """Changes of the weights of output rows, one per row. Some are marked: `amounts` of the changes of `rows` stand by
    themselves under `marks`."""

    weights: Ints
    rows: Places = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    amounts: Ints = field(default_factory=lambda: _NONE)
    marks: Ints = field(default_factory=lambda: _NONE)

    def mark(self, rows: Places, amounts: Ints, marks: Ints) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.amounts = np.concatenate([self.amounts, amounts])
        self.marks = np.concatenate([self.marks, marks])

    def split(self) -> tuple[Places, Ints, Ints]:
        """Indices of rows with their changes and correction ids (0: none); a row's change with an id is split off the
        rest."""
        left = self.weights.copy()
        np.subtract.at(left, self.rows, self.amounts)
        plain = np.flatnonzero(left)
        marks = np.concatenate([np.zeros(len(plain), dtype=np.int64), self.marks])
        return np.concatenate([plain, self.rows]), np.concatenate([left[plain], self.amounts]), marks


class CorrectionIds:
    """Ids for the corrections of a step. Their low half is a part of the lowest hash of the step's rows, so ids of
    different buckets differ; a replayed step yields the same ids."""

    def __init__(self, lowest_hash: int) -> None:
        self._low, self._given = lowest_hash & _LOW, 0

    def next(self, count: int) -> Ints:
        first = self._given + 1
        self._given += count
        return (np.arange(first, first + count, dtype=np.int64) << 32) | self._low


def correct(
    one: tuple[Touched, Changes],
    weights: tuple[Ints, Ints],
    other: Touched,
    met: tuple[Pairs, Changes],
    marks: CorrectionIds,
) -> None:
    """Links the corrections between single rows of one side (with `weights` before and after) and pairs.

    The first match of a row retracts its padding: of several it is the one with the smallest row of the other side.
    Likewise for the retracted pairs where a row has lost its last match and is padded again.
    """
    (rows, singly), (pairs, changes), (before, after) = one, met, weights
    gone = np.where((before > 0) & (after == 0), np.minimum(before, rows.weights), 0)
    come = np.where((before == 0) & (after > 0), np.minimum(after, rows.before), 0)
    own, others = pairs if rows.side.number == 0 else (pairs.right, pairs.left)
    amounts = (np.maximum(gone, 0) - np.maximum(come, 0))[own]
    amounts[changes.rows] = 0
    chosen = _smallest(np.flatnonzero(amounts * changes.weights > 0), (own, rows), (others, other))
    given = marks.next(len(chosen))
    singly.mark(own[chosen], -amounts[chosen], given)
    changes.mark(chosen, amounts[chosen], given)


def drop_unpaired_ids(rows: pl.DataFrame, mark: str) -> pl.DataFrame:
    """Output rows with ids only where both rows of a correction are emitted: where one is cancelled by an equal row,
    the other corrects nothing."""
    if rows[mark].null_count() == rows.height:
        return rows
    columns = [name for name in rows.columns if name not in (mark, WEIGHT)]
    both = (pl.col(WEIGHT).min() < 0) & (pl.col(WEIGHT).max() > 0)
    lost = rows.filter(both.over(columns) if columns else both)[mark].drop_nulls()
    kept = pl.when(~pl.col(mark).is_in(lost.implode())).then(pl.col(mark))
    return rows.with_columns(kept.alias(mark)) if len(lost) else rows


def _smallest(pairs: Places, one: tuple[Places, Touched], other: tuple[Places, Touched]) -> Places:
    """Of the pairs of each row of one side that with the smallest row of the other, by time and then by columns; in the
    order of the rows themselves."""
    if not len(pairs):
        return pairs
    keys = [_sort_keys(rows, places[pairs], name) for name, (places, rows) in (("a", one), ("b", other))]
    found = pl.concat([pl.DataFrame({"pair": pairs, "row": one[0][pairs]}), *keys], how="horizontal")
    ordered = found.sort([name for frame in keys for name in frame.columns])
    chosen: Places = ordered.unique("row", keep="first", maintain_order=True)["pair"].to_numpy()
    return chosen


def _sort_keys(rows: Touched, places: Places, prefix: str) -> pl.DataFrame:
    names = [rows.side.time, *(name for name in rows.side.columns if name != rows.side.time)]
    return rows.frame[places].select(pl.col(name).alias(f"{prefix}{place}") for place, name in enumerate(names))
