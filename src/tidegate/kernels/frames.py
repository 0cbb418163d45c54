"""Helpers on frames that several kernels share: alignment, weights, and rejected rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars._typing import PolarsDataType

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.core.render import json_row, text
from tidegate.kernels.api import RowError, Table
from tidegate.kernels.state.sorting import Indexes, Mask, equal, spread


def normal(dtype: pl.DataType, column: pl.Expr) -> pl.Expr:
    """The column with -0.0 as 0.0, in nested values too, so that equal values have one representation."""
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


def normalise(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The rows with -0.0 as 0.0 in `columns`."""
    touched = [name for name in dict.fromkeys(columns) if has_floats(rows.schema[name])]
    return rows.with_columns(normal(rows.schema[name], pl.col(name)).alias(name) for name in touched)


def types_of(rows: pl.DataFrame, columns: Sequence[str]) -> dict[str, pl.DataType]:
    return {name: rows.schema[name] for name in columns}


def consolidate(rows: pl.DataFrame, by: Sequence[str], others: Sequence[str] = ()) -> pl.DataFrame:
    """One row per `by` with the sum of its weights, without rows that cancel out. `others` take their first
    value."""
    groups = rows.group_by(by).agg(pl.col(WEIGHT).sum(), *(pl.col(name).first() for name in others))
    return groups.filter(pl.col(WEIGHT) != 0)


def align(count: int, indexes: Indexes, rows: pl.DataFrame) -> pl.DataFrame:
    """A frame of `count` rows with row j of `rows` at indexes[j], and NULL elsewhere."""
    if len(indexes) == count and bool((indexes[1:] > indexes[:-1]).all()):
        return rows
    source = np.full(count, -1, dtype=np.int64)
    source[indexes] = np.arange(len(indexes))
    index = pl.Series(source)
    return rows.select(pl.all().gather(index.set(index < 0, None)))


def find_rows(rows: pl.DataFrame, groups: pl.DataFrame, ident: Sequence[str], hash: str = HASH) -> Indexes:
    """For each row the index of the row of `groups` with the same hash and identity; -1 if there is none."""
    order = np.argsort(groups[hash].to_numpy(), kind="stable")
    hashes, row_hashes = groups[hash].to_numpy()[order], rows[hash].to_numpy()
    start = np.searchsorted(hashes, row_hashes, "left")
    count = np.searchsorted(hashes, row_hashes, "right") - start
    row, group = np.repeat(np.arange(len(row_hashes)), count), order[spread(start, count)]
    same = equal(rows[row], groups[group], ident)
    result = np.full(len(row_hashes), -1, dtype=np.intp)
    result[row[same]] = group[same]
    return result


def diff(old: pl.DataFrame, had: Mask, new: pl.DataFrame, has: Mask) -> pl.DataFrame | None:
    """The weighted changes from old to new rows, which are aligned; retractions first. `had` and `has`: which rows
    exist before and after."""
    differs = (had != has) | ~equal(old, new, new.columns)
    retracted = old.filter(pl.Series(had & differs)).with_columns(pl.lit(-1, pl.Int64).alias(WEIGHT))
    inserted = new.filter(pl.Series(has & differs)).with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))
    return nonempty(pl.concat([retracted, inserted]))


def nonempty(rows: pl.DataFrame) -> pl.DataFrame | None:
    return None if rows.is_empty() else rows


def concat(frames: Sequence[pl.DataFrame], schema: Mapping[str, pl.DataType] | None = None) -> pl.DataFrame:
    """The frames one after the other; an empty frame of `schema` if there are none."""
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _inner(dtype: pl.List) -> pl.DataType:
    return _instance(dtype.inner)


def _instance(dtype: PolarsDataType) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def add_weights(rows: pl.DataFrame, table: Table) -> tuple[pl.Series, pl.Series]:
    """Adds the weights of `rows` (each identity once) to the stored ones. Returns the weights before and after."""
    indexes, stored = table.match(rows)
    old = align(rows.height, indexes, stored.select(WEIGHT))[WEIGHT].fill_null(0)
    new = old + rows[WEIGHT]
    after = rows.with_columns(new.alias(WEIGHT))
    stays = pl.col(WEIGHT) != 0
    upserts = after.filter(stays)
    table.write(upserts, after.filter(~stays, pl.Series(row_mask(rows.height, indexes))), upserts.height - len(indexes))
    return old, new


def row_mask(count: int, indexes: Indexes) -> Mask:
    """A mask of `count` rows, True at `indexes`."""
    known = np.zeros(count, dtype=np.bool_)
    known[indexes] = True
    return known


def reject(
    relation: str, code: str, rows: pl.DataFrame, columns: Sequence[str], message: Callable[[Mapping[str, Any]], str]
) -> list[tuple[int, RowError]]:
    """One error per row, each with the row's position in the step; `message` makes the text for a row."""
    errors = []
    for row in rows.sort(SEQ).iter_rows(named=True):
        row_text = json_row({name: row[name] for name in columns})
        errors.append((row[SEQ], RowError(relation, code, message(row), row_text)))
    return errors


def errors_in_order(errors: Sequence[tuple[int, RowError]]) -> list[RowError]:
    """The errors in the order in which their rows arrived."""
    return [error for _, error in sorted(errors, key=lambda item: item[0])]


def describe_row(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Columns of a row for a message: `id = 1, day = 2024-05-01`."""
    return ", ".join(f"{name} = {text(row[name])}" for name in columns)
