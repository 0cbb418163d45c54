"""What all joins share: the matching rows of two frames, and their output rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import Comparison, JoinSpec, KeyPair, LookupJoinSpec, OutputColumn
from tidegate.kernels.frames import consolidate, nonempty
from tidegate.kernels.state.sorting import Hashes, Indexes, Mask, spread

MANY = 1 << 21
"""How many candidate pairs are compared at once, which bounds the memory of a cross join with a condition."""


_EQUALITIES: dict[str, Callable[[pl.Series, pl.Series], pl.Series]] = {
    "=": lambda left, right: left.eq_missing(right),
    "<>": lambda left, right: left.ne_missing(right),
}
_ORDERS: dict[str, Callable[[pl.Series, pl.Series], pl.Series]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Pairs(NamedTuple):
    """Rows that match: row `left[i]` of the left frame and row `right[i]` of the right one."""

    left: Indexes
    right: Indexes


class JoinCondition:
    """Two rows match if all `keys` are equal and all `conditions` hold."""

    def __init__(self, keys: Sequence[KeyPair], conditions: Sequence[Comparison] = ()) -> None:
        self._keys, self._conditions = tuple(keys), tuple(conditions)
        tests = [(pair.left, pair.right) for pair in keys if not pair.null_safe]
        tests += [(condition.left, condition.right) for condition in conditions if condition.op != "<=>"]
        self._strict = [list(dict.fromkeys(names)) for names in zip(*tests, strict=True)] or [[], []]

    def matchable(self, side: int, rows: pl.DataFrame) -> Mask:
        """A mask of the rows of a side that can match at all: NULL satisfies nothing but `<=>`."""
        matchable = np.ones(rows.height, dtype=np.bool_)
        for name in self._strict[side]:
            if rows[name].null_count():
                matchable &= rows[name].is_not_null().to_numpy()
        return matchable

    def only_matchable(self, side: int, rows: pl.DataFrame) -> pl.DataFrame:
        matchable = self.matchable(side, rows)
        return rows if matchable.all() else rows.filter(pl.Series(matchable))

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> Pairs:
        """The pairs of rows of two frames, both with `__h`, that match, in any order."""
        blocks = [Pairs(*np.empty((2, 0), dtype=np.intp)), *self.blocks(left, right)]
        return Pairs(
            np.concatenate([pairs.left for pairs in blocks]), np.concatenate([pairs.right for pairs in blocks])
        )

    def blocks(self, left: pl.DataFrame, right: pl.DataFrame) -> Iterator[Pairs]:
        """As `pairs`, in blocks, which needs less memory if few of the candidates match."""
        lefts, rights = np.flatnonzero(self.matchable(0, left)), np.flatnonzero(self.matchable(1, right))
        for block in _candidates(left[HASH].to_numpy()[lefts], right[HASH].to_numpy()[rights]):
            pairs = Pairs(lefts[block.left], rights[block.right])
            yield select_pairs(pairs, self.holds(left, right, pairs))

    def holds(self, left: pl.DataFrame, right: pl.DataFrame, pairs: Pairs) -> Mask:
        """A mask of the `pairs`, whose hashes are equal, that match."""
        met = np.ones(len(pairs.left), dtype=np.bool_)
        for pair in self._keys:
            met &= compare(*_values(left, right, pairs, pair), "<=>" if pair.null_safe else "=")
        for condition in self._conditions:
            met &= compare(*_values(left, right, pairs, condition), condition.op)
        return met


def select_pairs(pairs: Pairs, chosen: Mask) -> Pairs:
    return pairs if chosen.all() else Pairs(pairs.left[chosen], pairs.right[chosen])


def needed_columns(spec: JoinSpec | LookupJoinSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of each side that the join reads. An incremental join stores these, and ROW_HASH, by which it finds a
    row in a large group, is their hash. For the right side of a semi or anti join they are those of the condition."""
    tests: tuple[KeyPair | Comparison, ...] = (*spec.keys, *spec.conditions)
    tested = [test.left for test in tests], [test.right for test in tests]
    output = [{output.column for output in spec.outputs if output.side == side}.union(tested[side]) for side in (0, 1)]
    left, right = (tuple(name for name in spec.columns[side] if name in output[side]) for side in (0, 1))
    return left, right


def compare(left: pl.Series, right: pl.Series, op: str) -> Mask:
    """`left op right` of each row as in Spark: NULL on a side makes it false (except for `<=>`), NaN is equal to itself
    and above all other numbers, and -0.0 is 0.0."""
    result: Mask
    if op == "<=>":
        result = left.eq_missing(right).to_numpy()
        return result
    known: Mask = (left.is_not_null() & right.is_not_null()).to_numpy()
    if op in _EQUALITIES:
        result = _EQUALITIES[op](left, right).to_numpy()
    else:
        result = _ORDERS[op](*_comparable(left, right)).fill_null(False).to_numpy()
    return known & result


def join_pairs(outputs: Sequence[OutputColumn], left: pl.DataFrame, right: pl.DataFrame, pairs: Pairs) -> pl.DataFrame:
    """The output rows of `pairs`; weights multiply."""
    sides = [
        _gather(frame, indexes, [WEIGHT, *(output.column for output in outputs if output.side == side)])
        for side, (frame, indexes) in enumerate(zip((left, right), pairs, strict=True))
    ]
    columns = [sides[output.side][output.column].alias(output.name) for output in outputs]
    return pl.DataFrame([*columns, sides[0][WEIGHT] * sides[1][WEIGHT]])


def pad_rows(
    outputs: Sequence[OutputColumn], side: int, rows: pl.DataFrame, missing: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """The output rows of unmatched rows of one side. `missing` has the types of the other side's columns as far as they
    are known; columns of a side without any row have type Null."""
    columns = [
        pl.col(output.column) if output.side == side else pl.lit(None, missing.get(output.column, pl.Null()))
        for output in outputs
    ]
    named = (column.alias(output.name) for column, output in zip(columns, outputs, strict=True))
    return rows.select(WEIGHT, *named).select(*(output.name for output in outputs), WEIGHT)


def consolidate_output(frames: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    """The output rows of a step without those that cancel out, retractions first."""
    nonempty_frames = [frame for frame in frames if frame.height]
    if not nonempty_frames:
        return None
    rows = pl.concat(nonempty_frames)
    if (rows[WEIGHT] > 0).all() or (rows[WEIGHT] < 0).all():
        return rows
    columns = [name for name in rows.columns if name != WEIGHT]
    net = consolidate(rows, columns) if columns else rows.sum().filter(pl.col(WEIGHT) != 0)
    return nonempty(net.select(rows.columns).sort(pl.col(WEIGHT) > 0))


def _candidates(left: Hashes, right: Hashes) -> Iterator[Pairs]:
    """The pairs with equal hashes, in blocks of about `MANY`. Both sides are sorted first: a search for many hashes is
    much faster where they come in order."""
    rows, order = _ordered(left), _ordered(right)
    keys, hashes = left[rows], right[order]
    start = np.searchsorted(hashes, keys, "left")
    count = np.searchsorted(hashes, keys, "right") - start
    matched = np.flatnonzero(count)
    before = np.cumsum(count[matched]) - count[matched]
    for part in np.split(matched, np.flatnonzero(np.diff(before // MANY)) + 1) if len(matched) else ():
        yield Pairs(np.repeat(rows[part], count[part]), order[spread(start[part], count[part])])


def _ordered(hashes: Hashes) -> Indexes:
    """The order of hashes; rows of a table are sorted already."""
    return np.arange(len(hashes)) if bool((hashes[1:] >= hashes[:-1]).all()) else np.argsort(hashes)


def _gather(rows: pl.DataFrame, indexes: Indexes, columns: Sequence[str]) -> pl.DataFrame:
    rows = rows.select(*dict.fromkeys(columns))
    in_place = len(indexes) == rows.height and bool((indexes == np.arange(len(indexes))).all())
    return rows if in_place else rows.select(pl.all().gather(pl.Series(indexes)))


def _values(
    left: pl.DataFrame, right: pl.DataFrame, pairs: Pairs, columns: KeyPair | Comparison
) -> tuple[pl.Series, pl.Series]:
    return left[columns.left].gather(pl.Series(pairs.left)), right[columns.right].gather(pl.Series(pairs.right))


def _comparable(left: pl.Series, right: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Arrays and structs, which can be sorted but not compared, as numbers that are ordered as they are."""
    if not left.dtype.is_nested():
        return left, right
    both = pl.DataFrame({"value": pl.concat([left.alias("value"), right.alias("value")])})
    ordered = both.with_row_index("row").sort("value")
    fresh = ordered["value"].ne_missing(ordered["value"].shift(1)).cast(pl.Int64).cum_sum()
    numbers = ordered.select("row").with_columns(fresh.alias("number")).sort("row")["number"]
    return numbers[: len(left)], numbers[len(left) :]
