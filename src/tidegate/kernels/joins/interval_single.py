"""Rows that leave an interval join by themselves: padded rows of an outer side, and all rows of a semi or anti join."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from tidegate.core.columns import HASH
from tidegate.kernels.api import State
from tidegate.kernels.joins.incremental import MATCHES
from tidegate.kernels.joins.interval_limits import Limits
from tidegate.kernels.joins.interval_rows import Touched
from tidegate.kernels.joins.interval_side import CAME, OUT, Side, numbers
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.search import Mask


class Single(NamedTuple):
    """Of touched rows, before the step and after it: how many rows of the other side each meets, whether it is out by
    itself, and with what weight."""

    matches: tuple[Ints, Ints]
    out: tuple[Mask, Mask]
    weights: tuple[Ints, Ints]


def single(rows: Touched, limits: Limits) -> Single:
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
    return Single((met, meets), out, (rows.before * out[0], rows.weights * out[1]))


def turned(rows: Touched, found: Single) -> pl.DataFrame:
    """The rows as they are to be stored."""
    columns = [pl.Series(MATCHES, found.matches[1])]
    return rows.frame.with_columns(columns if rows.side.meets else [*columns, pl.Series(OUT, found.out[1])])


def keep_lists(rows: Touched, found: Single, state: State) -> None:
    """Lists the touched rows that wait now, and only those."""
    if not rows.side.lists:
        return
    there = rows.before != 0, rows.weights != 0
    waited, waits = (there & (met <= 0) & ~out for there, met, out in zip(there, found.matches, found.out, strict=True))
    come, gone = (rows.frame.filter(pl.Series(mask)) for mask in (waits & ~waited, waited & ~waits))
    for waiting in rows.side.lists:
        waiting.change(come, gone, state)


def released(side: Side, limits: Limits, reached: Ints, state: State) -> pl.DataFrame | None:
    """Takes the rows off the lists that wait no longer, and gives those that were not touched: all that are filed under
    `reached` were."""
    rows = None
    due = [entries for waiting in side.lists if (entries := waiting.due(limits, state)) is not None]
    if due:
        entries = due[0] if len(due) == 1 else pl.concat(due).unique()
        untouched = ~np.isin(numbers(entries, HASH), reached)
        rows = _let_out(side, entries.filter(pl.Series(untouched, dtype=pl.Boolean)), state)
    for waiting in side.lists:
        if rows is not None and len(side.lists) > 1:
            waiting.change(rows.clear(), rows, state)
        waiting.forget(limits, state)
    return rows


def _let_out(side: Side, entries: pl.DataFrame, state: State) -> pl.DataFrame | None:
    """The stored rows of entries; from now on they are out."""
    table = side.stored(state)
    if table is None or entries.is_empty():
        return None
    rows = table.lookup(entries)
    table.write(rows.with_columns(pl.lit(True).alias(OUT)), grown=0)
    return rows


def next_us(side: Side, waits: int | None, delay: int | None, state: State) -> int | None:
    """The processing time at which the next row of a side leaves: `waits` after its time or `delay` after it came,
    where these are known."""
    found = []
    for waiting in side.lists:
        table, after = waiting.stored(state), delay if waiting.by == CAME else waits
        if table is not None and after is not None and table.count and (low := table.lowest()) is not None:
            found.append(low + after)
    return min(found, default=None)


def _due(rows: Touched, limits: Limits) -> Mask:
    came = None if rows.side.came is None else numbers(rows.frame, rows.side.came)
    return limits.leave(numbers(rows.frame, rows.side.time), came)
