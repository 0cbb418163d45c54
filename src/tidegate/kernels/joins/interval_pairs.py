"""Which rows of the two sides of an interval join meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tidegate.kernels.joins.interval_reach import within_reach
from tidegate.kernels.joins.interval_rows import points_of, spans_of
from tidegate.kernels.joins.pairs import Pairs, only
from tidegate.kernels.state.search import Mask, Places

if TYPE_CHECKING:
    from tidegate.kernels.joins.interval import IntervalJoin


def pairs_of(
    join: IntervalJoin, left: pl.DataFrame, right: pl.DataFrame, changed: tuple[Mask, Mask] | None = None
) -> Pairs:
    """The rows of two sides that meet; where it is said which have changed, the pairs of which one has."""
    frames, none = (left, right), Pairs(*np.empty((2, 0), dtype=np.intp))
    if changed is None:
        found = [none, *_met(join, frames, 0, None, None)]
    else:
        fresh, same = [np.flatnonzero(mask) for mask in changed], np.flatnonzero(~changed[0])
        found = [none, *_met(join, frames, 0, fresh[0], None), *_met(join, frames, 1, fresh[1], same)]
    return Pairs(*(np.concatenate(places) for places in zip(*found, strict=True)))


def _met(
    join: IntervalJoin,
    frames: tuple[pl.DataFrame, pl.DataFrame],
    one: int,
    rows: Places | None,
    others: Places | None,
) -> Iterator[Pairs]:
    """Pairs of some rows of side `one` and some of the other (None: all) that meet."""
    spans = spans_of(join.sides[one], frames[one], join.slices).at(rows)
    points = points_of(join.sides[1 - one], frames[1 - one], join.slices).at(others)
    for own, other in within_reach(spans, points):
        mine, theirs = own if rows is None else rows[own], other if others is None else others[other]
        pairs = Pairs(mine, theirs) if one == 0 else Pairs(theirs, mine)
        yield only(pairs, join.meeting.holds(*frames, pairs))
