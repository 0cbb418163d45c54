"""Small things that several kernels do with frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from polars._typing import PolarsDataType

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.state.merge import equal
from tidegate.kernels.state.search import Mask, Places, spread


def normal(dtype: pl.DataType, column: pl.Expr) -> pl.Expr:
    """A column with -0.0 turned into 0.0, in nested values too, so that equal values look the same."""
    match dtype:
        case pl.Float32() | pl.Float64():
            return column + 0.0
        case pl.List() if has_floats(dtype):
            return column.list.eval(normal(_inner(dtype), pl.element()))
        case pl.Struct() if has_floats(dtype):
            fields = [normal(_instance(f.dtype), column.struct.field(f.name)).alias(f.name) for f in dtype.fields]
            return pl.when(column.is_not_null()).then(pl.struct(fields))
    return column


def has_floats(dtype: pl.DataType) -> bool:
    match dtype:
        case pl.List():
            return has_floats(_inner(dtype))
        case pl.Struct():
            return any(has_floats(_instance(field.dtype)) for field in dtype.fields)
    return dtype.is_float()


def normalised(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows with -0.0 turned into 0.0 in `columns`."""
    touched = [name for name in dict.fromkeys(columns) if has_floats(rows.schema[name])]
    return rows.with_columns(normal(rows.schema[name], pl.col(name)).alias(name) for name in touched)


def types_of(rows: pl.DataFrame, columns: Sequence[str]) -> dict[str, pl.DataType]:
    return {name: rows.schema[name] for name in columns}


def consolidated(rows: pl.DataFrame, by: Sequence[str], kept: Sequence[str] = ()) -> pl.DataFrame:
    """One row per `by` with the sum of its weights, without those that cancel out; `kept` go along."""
    groups = rows.group_by(by).agg(pl.col(WEIGHT).sum(), *(pl.col(name).first() for name in kept))
    return groups.filter(pl.col(WEIGHT) != 0)


def aligned(count: int, places: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Row j of `rows` put at places[j] of a frame of `count` rows; the others are NULL."""
    if len(places) == count and bool((places[1:] > places[:-1]).all()):
        return rows
    source = np.full(count, -1, dtype=np.int64)
    source[places] = np.arange(len(places))
    index = pl.Series(source)
    return rows.select(pl.all().gather(index.set(index < 0, None)))


def numbered(rows: pl.DataFrame, groups: pl.DataFrame, ident: Sequence[str], hash: str = HASH) -> Places:
    """For each row the number of the row of `groups` with the same hash and identity; -1 if there is none."""
    order = np.argsort(groups[hash].to_numpy(), kind="stable")
    hashes, wanted = groups[hash].to_numpy()[order], rows[hash].to_numpy()
    start = np.searchsorted(hashes, wanted, "left")
    count = np.searchsorted(hashes, wanted, "right") - start
    row, place = np.repeat(np.arange(len(wanted)), count), order[spread(start, count)]
    same = equal(rows[row], groups[place], ident)
    result = np.full(len(wanted), -1, dtype=np.intp)
    result[row[same]] = place[same]
    return result


def changes(old: pl.DataFrame, had: Mask, new: pl.DataFrame, has: Mask) -> pl.DataFrame | None:
    """Aligned old and new rows as weighted changes, retractions first; `had` and `has` say which are there at all."""
    differs = (had != has) | ~equal(old, new, new.columns)
    gone = old.filter(pl.Series(had & differs)).with_columns(pl.lit(-1, pl.Int64).alias(WEIGHT))
    come = new.filter(pl.Series(has & differs)).with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))
    return nonempty(pl.concat([gone, come]))


def nonempty(rows: pl.DataFrame) -> pl.DataFrame | None:
    return None if rows.is_empty() else rows


def together(frames: Sequence[pl.DataFrame], schema: Mapping[str, pl.DataType] | None = None) -> pl.DataFrame:
    """Frames one after the other."""
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _inner(dtype: pl.List) -> pl.DataType:
    return _instance(dtype.inner)


def _instance(dtype: PolarsDataType) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()
