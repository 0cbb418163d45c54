"""Z-sets as Polars frames: rows with a weight. Consolidation, and the ops that name a change to a reader."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.columns import OP, WEIGHT


def frame_of(table: pa.Table) -> pl.DataFrame:
    """An Arrow table as a Polars frame."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def net_weight(table: pa.Table) -> int:
    """The sum of all weights: rows added minus rows removed."""
    return int(pc.sum(table.column(WEIGHT)).as_py() or 0)


def sizes(weights: pl.Series) -> tuple[int, int]:
    """How many rows were added or removed, equal ones each, and how many more were added than removed."""
    return int(weights.abs().sum()), int(weights.sum())


def consolidate(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge equal rows, adding up their weights, and drop those with weight zero."""
    columns = [name for name in rows.columns if name != WEIGHT]
    if not columns:
        total = rows.select(pl.col(WEIGHT).sum())
        return total.filter(pl.col(WEIGHT) != 0)
    summed = rows.group_by(columns, maintain_order=True).agg(pl.col(WEIGHT).sum())
    return summed.filter(pl.col(WEIGHT) != 0)


def expand(rows: pl.DataFrame) -> pl.DataFrame:
    """Each row as often as its weight says, without the weight."""
    plain = rows.filter(pl.col(WEIGHT) > 0)
    if plain[WEIGHT].max() in (None, 1):
        return plain.drop(WEIGHT)
    indices = np.repeat(np.arange(plain.height), plain[WEIGHT].to_numpy())
    return plain.drop(WEIGHT)[indices]


def changes(
    rows: pl.DataFrame, hidden: Sequence[str], key: Sequence[str] | None, append: bool, mark: str | None = None
) -> pl.DataFrame:
    """A step's changes of one relation as users see them: visible columns, `__op` and `__w`, retractions first.

    Rows that cancel out across groups vanish; what is left of a key, or of a mark, with both signs is an update. An
    upsert reader skips `-U` when it reads; the log keeps both halves, since content is their sum.
    """
    if append:
        visible = rows.drop(hidden)
        return visible.with_columns(pl.lit("+I").alias(OP))
    visible_names = [name for name in rows.columns if name != WEIGHT and name not in hidden]
    net = _cancel(consolidate(rows), visible_names)
    return _label(net, key, mark).drop(hidden).sort(pl.col(WEIGHT) > 0, maintain_order=True)


def _cancel(rows: pl.DataFrame, visible: list[str]) -> pl.DataFrame:
    """Remove pairs that differ in hidden columns only: readers would see no change."""
    hidden = [name for name in rows.columns if name != WEIGHT and name not in visible]
    if not hidden or rows.height < 2:
        return rows
    plus, minus = rows.filter(pl.col(WEIGHT) > 0), rows.filter(pl.col(WEIGHT) < 0)
    shared = _shared(plus, minus, visible)
    if shared.is_empty():
        return rows
    return pl.concat([_reduce(plus, shared, visible), _reduce(minus, shared, visible)])


def _shared(plus: pl.DataFrame, minus: pl.DataFrame, visible: list[str]) -> pl.DataFrame:
    """For each visible row, how many of its insertions and retractions cancel out."""
    up = _totals(plus, visible, "__up")
    down = _totals(minus, visible, "__down")
    both = up.join(down, on=visible or ["__all"], how="inner", nulls_equal=True)
    return both.with_columns(pl.min_horizontal("__up", "__down").alias("__both")).drop("__up", "__down")


def _totals(rows: pl.DataFrame, visible: list[str], name: str) -> pl.DataFrame:
    keyed = rows if visible else rows.with_columns(pl.lit(0).alias("__all"))
    return keyed.group_by(visible or ["__all"]).agg(pl.col(WEIGHT).abs().sum().alias(name))


def _reduce(rows: pl.DataFrame, shared: pl.DataFrame, visible: list[str]) -> pl.DataFrame:
    """Lower the absolute weights of rows by what cancels out, in row order."""
    on = visible or ["__all"]
    keyed = rows if visible else rows.with_columns(pl.lit(0).alias("__all"))
    joined = keyed.join(shared, on=on, how="left", nulls_equal=True, maintain_order="left")
    size = pl.col(WEIGHT).abs()
    before = size.cum_sum().over(on) - size
    cancelled = (pl.col("__both").fill_null(0) - before).clip(0).clip(upper_bound=size)
    remaining = (size - cancelled) * pl.col(WEIGHT).sign()
    return joined.with_columns(remaining.cast(pl.Int64).alias(WEIGHT)).filter(pl.col(WEIGHT) != 0).select(rows.columns)


def _label(rows: pl.DataFrame, key: Sequence[str] | None, mark: str | None) -> pl.DataFrame:
    plain = pl.when(pl.col(WEIGHT) > 0).then(pl.lit("+I")).otherwise(pl.lit("-D"))
    if key is None and mark is None:
        return rows.with_columns(plain.alias(OP))
    positive, negative = (pl.col(WEIGHT) > 0).any(), (pl.col(WEIGHT) < 0).any()
    both = pl.lit(False)
    if key is not None:
        both = (positive & negative).over(list(key)) if key else positive & negative
    if mark is not None:
        both |= pl.col(mark).is_not_null() & (positive & negative).over(mark)
    update = pl.when(pl.col(WEIGHT) > 0).then(pl.lit("+U")).otherwise(pl.lit("-U"))
    return rows.with_columns(pl.when(both).then(update).otherwise(plain).alias(OP))
