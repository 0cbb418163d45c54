"""The entries of a bag as they travel: each value of a group with its net weight, or only the best one."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidegate.core.columns import SEQ, WEIGHT
from tidegate.kernels.aggregates.function import PLACE, STEP
from tidegate.kernels.aggregates.plan import Values
from tidegate.kernels.frames import consolidated

_SIMPLE = (pl.Boolean, pl.String, pl.Decimal)


def counting(values: Values, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that have a part in a bag."""
    conditions = [pl.col(name).is_not_null() for name in values.required]
    if values.filter is not None:
        conditions.append(pl.col(values.filter))
    return rows.filter(*conditions) if conditions else rows


def net(values: Values, keys: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    """Each value with its net weight, or the best one only where that is enough."""
    columns = list(dict.fromkeys([*keys, *values.args, *([SEQ] if values.arrival else [])]))
    if values.hash is not None:
        return consolidated(rows.select(*columns, WEIGHT, values.hash), columns, [values.hash])
    return _best(values, keys, rows.select(*columns, WEIGHT))


def _best(values: Values, keys: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    column, descending = values.order[0]
    if len(values.order) == 1 and column not in keys and _is_simple(rows.schema[column]):
        best = pl.col(column).min() if not descending else _largest(column, rows.schema[column])
        return rows.group_by(keys).agg(best, pl.col(WEIGHT).sum())
    order = [(SEQ if name == PLACE else name, down) for name, down in values.order if name != STEP]
    down = [descending for _, descending in order]
    ordered = rows.sort([name for name, _ in order], descending=down, nulls_last=down)
    return ordered.unique(subset=keys, keep="first", maintain_order=True)


def _is_simple(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype.is_temporal() or dtype in _SIMPLE


def _largest(column: str, dtype: pl.DataType) -> pl.Expr:
    """The greatest value; NaN is above every number."""
    return pl.col(column).nan_max() if dtype.is_float() else pl.col(column).max()
