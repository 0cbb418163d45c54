"""Search in sorted hashes, and the merge of sorted rows of several ages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.core.columns import HASH

Hashes = npt.NDArray[np.int64]
Indexes = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Position = tuple[int, int]
"""A point in the order of rows: the hash, and the hash within it (0 in tables with one hash)."""

LOWEST: Position = (-(1 << 63), -(1 << 63))
HIGHEST: Position = (1 << 63, 0)
"""Above every possible row."""


def first_at(hashes: Hashes, within: Hashes | None, keys: Hashes, keys_within: Hashes | None) -> Indexes:
    """For each pair of `keys` the index of the first row that is not below it."""
    if within is None or keys_within is None:
        return np.searchsorted(hashes, keys, "left")
    return _bisect(hashes, within, keys, keys_within, after=False)


def first_after(hashes: Hashes, within: Hashes | None, keys: Hashes, keys_within: Hashes | None) -> Indexes:
    """For each pair of `keys` the index of the first row above it."""
    if within is None or keys_within is None:
        return np.searchsorted(hashes, keys, "right")
    return _bisect(hashes, within, keys, keys_within, after=True)


def _bisect(hashes: Hashes, within: Hashes, keys: Hashes, keys_within: Hashes, after: bool) -> Indexes:
    low = np.searchsorted(hashes, keys, "left")
    high = np.searchsorted(hashes, keys, "right")
    while True:
        active = low < high
        if not active.any():
            return low
        middle = np.where(active, (low + high) >> 1, 0)
        middle_within = within[middle]
        below = active & ((middle_within <= keys_within) if after else (middle_within < keys_within))
        low = np.where(below, middle + 1, low)
        high = np.where(active & ~below, middle, high)


def not_below(position: Position, hashes: Hashes, within: Hashes | None) -> Mask:
    """A mask of the rows at or after a position."""
    result: Mask = hashes >= position[0]
    if within is not None:
        result &= (hashes > position[0]) | (within >= position[1])
    return result


def spread(starts: Indexes, counts: Indexes) -> Indexes:
    """The numbers starts[0], starts[0]+1, ... (counts[0] of them), starts[1], ... : ranges laid end to end."""
    if counts.size == 0 or int(counts.max()) <= 1:
        return starts[counts > 0]
    ends = np.cumsum(counts)
    return np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)


DEAD = "__dead"
"""True in a row of a run that deletes its identity."""

ROW = "__row"


def newest(frames: Sequence[pl.DataFrame], ident: Sequence[str], within: str | None) -> pl.DataFrame:
    """The rows of `frames` (newest frame first) in order of position, one per identity."""
    rows = pl.concat([frame for frame in frames if len(frame)] or frames[:1])
    order = _order(rows, within)
    rows = rows if _is_sorted(order) else rows[order]
    repeated = _repeats(rows, within)
    if not repeated.any():
        return rows
    pairs = np.flatnonzero(repeated)
    if equal(rows[pairs], rows[pairs + 1], ident).all():
        return rows.filter(pl.Series(np.concatenate([[True], ~repeated])))
    # Different identities at one position: of those rows, keep the first of each identity.
    shared = np.union1d(pairs, pairs + 1)
    columns = dict.fromkeys([HASH, *([within] if within else []), *ident])
    firsts = rows[shared].with_row_index(ROW).unique(subset=[*columns], keep="first", maintain_order=True)[ROW]
    if len(firsts) == len(shared):
        return rows
    keep = np.ones(rows.height, dtype=np.bool_)
    keep[shared] = False
    keep[shared[firsts.to_numpy()]] = True
    return rows.filter(pl.Series(keep))


def equal(left: pl.DataFrame, right: pl.DataFrame, columns: Sequence[str]) -> Mask:
    """A mask of the rows in which two frames agree in `columns`; NULL = NULL, NaN = NaN, -0.0 = 0.0."""
    same = np.ones(left.height, dtype=np.bool_)
    for name in columns:
        same &= _same(left[name], right[name])
    return same


def _same(left: pl.Series, right: pl.Series) -> Mask:
    """Polars fails in an assertion when it compares some lists of maps, so these are compared as Python values."""
    if isinstance(left.dtype, pl.List) and "Map(" in str(left.dtype):
        pairs = zip(left.to_list(), right.to_list(), strict=True)
        return np.array([repr(one) == repr(other) for one, other in pairs], dtype=np.bool_)
    same: Mask = left.eq_missing(right).to_numpy()
    return same


def sort_order(hashes: Hashes, within: Hashes | None) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The stable order of positions."""
    return np.argsort(hashes, kind="stable") if within is None else np.lexsort((within, hashes))


def _order(rows: pl.DataFrame, within: str | None) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return sort_order(rows[HASH].to_numpy(), None if within is None else rows[within].to_numpy())


def _is_sorted(order: np.ndarray[tuple[int], np.dtype[np.intp]]) -> bool:
    return bool((order[1:] > order[:-1]).all())


def _repeats(rows: pl.DataFrame, within: str | None) -> Mask:
    """For each row but the last: is the next one at the same position?"""
    repeated: Mask = np.ones(max(rows.height - 1, 0), dtype=np.bool_)
    for name in (HASH, within):
        if name is not None:
            values = rows[name].to_numpy()
            repeated &= values[1:] == values[:-1]
    return repeated
