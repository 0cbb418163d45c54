"""Values as text: JSON for programs, plain text for people. docs/sql.md, "Values as text", has the rules.

Columns are rendered as a whole where Arrow can do it, which is what sinks need; single values otherwise.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


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
        return [json_text(value, column.type) for value in column.to_pylist()]
    if pa.types.is_timestamp(column.type):
        texts = pc.replace_substring(texts, " ", "T")
        texts = pc.binary_join_element_wise(texts, "Z" if column.type.tz else "", "")
    if pa.types.is_floating(column.type):
        texts = pc.replace_substring_regex(texts, r"^(NaN|-?Infinity)$", r'"\1"')
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    return _filled(texts, "null")


def json_row(row: Mapping[str, Any]) -> str:
    """A row as one JSON object."""
    return json_text(dict(row))


def json_text(value: Any, type_: pa.DataType | None = None) -> str:
    """A value as JSON without blanks."""
    return _JSON.encode(json_value(value, type_))


def json_value(value: Any, type_: pa.DataType | None = None) -> Any:
    """A value as JSON can hold it: times in RFC 3339, decimals, NaN and infinity as text, binary in base 64.

    The Arrow type tells an empty map from an empty list; everything else is clear from the value.
    """
    match value:
        case dt.datetime():
            return _clock(value).replace(" ", "T") + ("Z" if value.tzinfo else "")
        case dt.date():
            return value.isoformat()
        case dt.time() | Decimal() | dt.timedelta():
            return text(value)
        case float() if not math.isfinite(value):
            return _NOT_FINITE[str(value)]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case dict():
            return {_key(key): json_value(item, _inner(type_, key)) for key, item in value.items()}
        case list() | tuple():
            return _json_list(value, type_)
    return value


def _json_list(value: Sequence[Any], type_: pa.DataType | None) -> Any:
    """A list or a map: Arrow returns maps as lists of tuples, which no other list contains."""
    if isinstance(type_, pa.MapType):
        return {_key(key): json_value(item, type_.item_type) for key, item in value}
    if type_ is None and value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        return {_key(key): json_value(item) for key, item in value}
    return [json_value(item, _inner(type_)) for item in value]


def _inner(type_: pa.DataType | None, name: Any = None) -> pa.DataType | None:
    if isinstance(type_, pa.StructType):
        return type_.field(name).type
    return getattr(type_, "value_type", None)


def _key(value: Any) -> str:
    encoded = json_value(value)
    return encoded if isinstance(encoded, str) else _JSON.encode(encoded)


def text_cells(column: pa.ChunkedArray[Any]) -> list[str]:
    """A column's values for people."""
    texts = column if pa.types.is_string(column.type) else _texts(column)
    if texts is None:
        return [text(value, column.type) for value in column.to_pylist()]
    if pa.types.is_floating(column.type):
        texts = pc.replace_substring_regex(texts, r"^(-?\d+)$", r"\1.0")
    return _filled(texts, "NULL")


def text(value: Any, type_: pa.DataType | None = None) -> str:
    """A value for people: `NULL`, `true`, `2024-05-01 12:00:03.25`, binary as hex, nested values as JSON."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return _clock(value)
        case dt.time():
            return _without_zeros(value.isoformat())
        case bytes():
            return value.hex()
        case float():
            return _NOT_FINITE.get(str(value), str(value))
        case dict() | list() | tuple():
            return json_text(value, type_)
    return str(value)


def csv_column(column: pa.ChunkedArray[Any]) -> Any:
    """A column as CSV can hold it: times in UTC without zone, nested values as JSON, binary as hex; NULL stays NULL."""
    types, type_ = pa.types, column.type
    if types.is_timestamp(type_):
        return column.cast(pa.timestamp("us"))
    numeric = _all_finite(column) if types.is_floating(type_) else _texts(column) is not None
    if numeric or types.is_string(type_):
        return column
    cells = json_cells(column) if types.is_nested(type_) else text_cells(column)
    return pc.if_else(column.is_null(), None, pa.array(cells, pa.string()))


def _texts(column: pa.ChunkedArray[Any]) -> Any:
    """A column's values as text, all at once, for the types where that can be done; else None."""
    types, type_ = pa.types, column.type
    if types.is_timestamp(type_):
        clock = column.cast(pa.timestamp("us")).cast(pa.string())
        return pc.replace_substring_regex(clock, r"\.?0+$", "")
    if types.is_floating(type_) and not _all_finite(column):
        texts = pc.replace_substring(column.cast(pa.string()), "inf", "Infinity")
        return pc.replace_substring(texts, "nan", "NaN")
    simple = (types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_boolean)
    return column.cast(pa.string()) if any(is_simple(type_) for is_simple in simple) else None


def _all_finite(column: pa.ChunkedArray[Any]) -> bool:
    return bool(pc.all(pc.is_finite(column), min_count=0).as_py())


def _filled(texts: Any, missing: str) -> list[str]:
    filled: list[str] = pc.fill_null(texts, missing).to_pylist()
    return filled


def _clock(value: dt.datetime) -> str:
    """`2024-05-01 12:00:03.25`, in UTC, without trailing zeros."""
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return _without_zeros(value.isoformat(sep=" "))


def _without_zeros(clock: str) -> str:
    return clock.rstrip("0") if "." in clock else clock
