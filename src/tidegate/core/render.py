"""Values as text, a column at a time: JSON for programs, plain text for people."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_UNREAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_objects(table: pa.Table) -> Iterator[str]:
    """One JSON object per row, keys in the order of the columns."""
    if not table.num_columns:
        return iter(["{}"] * table.num_rows)
    keys = [_JSON.encode(name).replace("%", "%%") for name in table.column_names]
    template = "{" + ",".join(f"{key}:%s" for key in keys) + "}"
    return (template % cells for cells in zip(*map(json_cells, table.columns), strict=True))


def json_cells(column: pa.ChunkedArray[Any]) -> list[str]:
    """A column's values as JSON."""
    texts = _texts(column)
    if texts is None:
        return [_JSON.encode(plain(value, column.type)) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        texts = pc.replace_substring(texts, " ", "T")
        texts = pc.binary_join_element_wise(texts, "Z" if column.type.tz else "", "")
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    return _filled(texts, "null")


def _texts(column: pa.ChunkedArray[Any]) -> Any:
    """A column's values as text, all at once, for the types where that can be done; else None."""
    types, type_ = pa.types, column.type
    if types.is_timestamp(type_):
        clock = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.replace_substring_regex(clock, r"\.?0+$", "")
    if types.is_floating(type_) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        return None
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        return column.cast(pa.string())
    return column.cast(pa.string()) if types.is_date(type_) or types.is_boolean(type_) else None


def _filled(texts: Any, missing: str) -> list[str]:
    filled: list[str] = pc.fill_null(texts, missing).to_pylist()
    return filled


def plain(value: Any, type_: pa.DataType) -> Any:
    """A value as JSON can say it: times in RFC 3339, decimals, NaN and infinity as text, binary in base 64."""
    match value:
        case dt.datetime():
            return moment(value).replace(" ", "T") + ("Z" if getattr(type_, "tz", None) else "")
        case dt.date() | dt.time():
            return value.isoformat()
        case Decimal() | dt.timedelta():
            return str(value)
        case float() if not math.isfinite(value):
            return _UNREAL[str(value)]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dict() | list() | tuple():
            return _nested(value, type_)
    return value


def _nested(value: Any, type_: pa.DataType) -> Any:
    if isinstance(type_, pa.StructType):
        return {field.name: plain(value[field.name], field.type) for field in type_.fields}
    if isinstance(type_, pa.MapType):
        return {_key(key, type_.key_type): plain(item, type_.item_type) for key, item in value}
    assert isinstance(type_, pa.ListType)
    return [plain(item, type_.value_type) for item in value]


def _key(value: Any, type_: pa.DataType) -> str:
    said = plain(value, type_)
    return said if isinstance(said, str) else _JSON.encode(said)


def shown_cells(column: pa.ChunkedArray[Any]) -> list[str]:
    """A column's values for people: `NULL`, `true`, `2024-05-01 12:00:03.25`, nested ones as JSON."""
    texts = column if pa.types.is_string(column.type) else _texts(column)
    if texts is None:
        return [shown(value, column.type) for value in column.to_pylist()]
    return _filled(texts, "NULL")


def csv_column(column: pa.ChunkedArray[Any]) -> Any:
    """A column as CSV can say it: times in UTC without zone, nested values as JSON, binary as hex; NULL stays NULL."""
    types, type_ = pa.types, column.type
    if types.is_timestamp(type_):
        return column.cast(pa.timestamp("us"))
    if types.is_string(type_) or _texts(column) is not None:
        return column
    cells = json_cells(column) if types.is_nested(type_) else shown_cells(column)
    return pc.if_else(column.is_null(), None, pa.array(cells, pa.string()))


def shown(value: Any, type_: pa.DataType) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return moment(value)
        case bytes():
            return value.hex()
        case float():
            return _UNREAL.get(str(value), str(value))
        case dict() | list() | tuple():
            return _JSON.encode(_nested(value, type_))
    return str(value)


def moment(value: dt.datetime) -> str:
    """`2024-05-01 12:00:03.25`, in UTC, without trailing zeros."""
    text = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text
