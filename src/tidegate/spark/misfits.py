"""Rows from the JVM with values that no frame can hold: texts that are not UTF-8 and times outside of the years 1 to
9999. Spark stores both without complaint; a Polars frame with such a text crashes on use, and Python cannot read such a
time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.columns import WEIGHT
from tidegate.core.render import json_text
from tidegate.spark import codec

REASON = "a text that is not UTF-8, a time outside of the years 1 to 9999, or a value that is too large"


class Misfit(NamedTuple):
    """The number of a row, the column with the misfit (a branch of a wide frame, or any column of a plain one), and the
    row as JSON."""

    row: int
    column: str
    text: str


_EPOCH = date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (date.min - _EPOCH).days, (date.max - _EPOCH).days
FIRST_MICRO, END_MICRO = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000


def split_misfits(batch: pa.RecordBatch) -> tuple[pl.DataFrame, list[Misfit]]:
    """The rows as a frame, and its misfits: a branch with one is NULL there, and so is the weight of a plain row with
    one. Deletions are not listed, since their insertions were."""
    bad = {name: rows for name, column in zip(batch.schema.names, batch.columns, strict=True) if (rows := _bad(column))}
    if not bad:
        return codec.frame_of(batch), []
    misfits = [
        Misfit(row, name, _text(batch, name, row))
        for name, rows in bad.items()
        for row in rows
        if _is_insertion(batch, name, row)
    ]
    columns = [
        _without(column, bad.get(name, [])) for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    fit = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    if WEIGHT in batch.schema.names:
        dropped = sorted({row for rows in bad.values() for row in rows})
        weight = _without(fit.column(WEIGHT), dropped)
        fit = fit.set_column(fit.schema.get_field_index(WEIGHT), WEIGHT, weight)
    return codec.frame_of(fit), misfits


def _bad(column: pa.Array[Any]) -> list[int]:
    """The numbers of the rows with a misfit."""
    return [] if _fits(column) else sorted(_search(column, 0, len(column)))


def _search(column: pa.Array[Any], first: int, end: int) -> Iterator[int]:
    if _fits(column.take(pa.array(range(first, end), pa.int64()))):
        return
    if end - first == 1:
        yield first
        return
    middle = (first + end) // 2
    yield from _search(column, first, middle)
    yield from _search(column, middle, end)


def _fits(column: pa.Array[Any]) -> bool:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return False
        return True
    if pa.types.is_timestamp(kind):
        return _within(column, pa.int64(), FIRST_MICRO, END_MICRO - 1)
    if pa.types.is_date32(kind):
        return _within(column, pa.int32(), FIRST_DAY, LAST_DAY)
    if pa.types.is_struct(kind):
        return all(_fits(child) for child in column.flatten())
    if pa.types.is_map(kind):
        return _fits(column.keys) and _fits(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _fits(column.flatten())
    return True


def _within(column: pa.Array[Any], stored: pa.DataType, first: int, last: int) -> bool:
    bounds = pc.min_max(column.view(stored))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is None or (low >= first and high <= last)


def _without(column: pa.Array[Any], rows: list[int]) -> pa.Array[Any]:
    """The column with NULL in some rows."""
    if not rows:
        return column
    kept: list[int | None] = list(range(len(column)))
    for row in rows:
        kept[row] = None
    return column.take(pa.array(kept, pa.int64()))


def _is_insertion(batch: pa.RecordBatch, name: str, row: int) -> bool:
    column = batch.column(name)
    if pa.types.is_struct(column.type) and WEIGHT in [field.name for field in column.type]:
        weight = column.field(WEIGHT)[row].as_py()
    else:
        weight = batch.column(WEIGHT)[row].as_py() if WEIGHT in batch.schema.names else 1
    return weight is None or weight > 0


def _text(batch: pa.RecordBatch, name: str, row: int) -> str:
    """The row of a branch, or the plain row, as JSON."""
    column = batch.column(name)
    if pa.types.is_struct(column.type) and WEIGHT in [field.name for field in column.type]:
        fields = {field.name: column.field(index) for index, field in enumerate(column.type)}
    else:
        fields = dict(zip(batch.schema.names, batch.columns, strict=True))
    return "{" + ", ".join(f"{json_text(key, pa.string())}: {_value(each, row)}" for key, each in fields.items()) + "}"


def _value(column: pa.Array[Any], row: int) -> str:
    single = column.take(pa.array([row], pa.int64()))
    if _fits(single):
        return json_text(single[0].as_py(), column.type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        raw = single.view(pa.binary() if pa.types.is_string(column.type) else pa.large_binary())[0].as_py()
        return json_text(raw.decode("utf-8", errors="replace"), pa.string())
    if pa.types.is_timestamp(column.type):
        return json_text(f"{single.view(pa.int64())[0].as_py()} microseconds since 1970", pa.string())
    if pa.types.is_date32(column.type):
        return json_text(f"{single.view(pa.int32())[0].as_py()} days since 1970", pa.string())
    return "null"


def visible_row(text: str) -> str:
    """A row as JSON without the columns that travel beside it."""
    try:
        row = json.loads(text)
    except ValueError:
        return text
    return json.dumps({key: value for key, value in row.items() if not key.startswith("__")}, ensure_ascii=False)
