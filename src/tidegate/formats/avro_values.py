"""Conversion of decoded Avro values to Arrow arrays of the declared types."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidegate.core.render import json_value

_NONE = type(None)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY = dt.date(1970, 1, 1)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def array(values: Sequence[Any], type_: Any, unit: str) -> tuple[pa.Array, dict[int, Any]]:
    """Convert values to an array, and return with it the values that do not fit, by index; they are NULL in the array.

    Values of exactly the right type, the usual case, are converted as a whole; only others are converted one by one.
    """
    if set(map(type, values)) <= _natural(type_):
        try:
            return pa.array(values, type_), {}
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            pass
    made, faults = [], {}
    for index, value in enumerate(values):
        try:
            made.append(_fit(value, type_, unit))
        except (pa.ArrowException, ArithmeticError, LookupError, ValueError, TypeError):
            made.append(None)
            faults[index] = value
    return pa.array(made, type_), faults


def _natural(type_: Any) -> set[type]:
    """The Python types that Arrow converts to a type without loss."""
    types = pa.types
    if types.is_integer(type_):
        return {int, _NONE}
    if types.is_floating(type_):
        return {float, _NONE}
    if types.is_timestamp(type_):
        return {dt.datetime, _NONE}
    by_check = (
        (types.is_boolean, bool),
        (types.is_string, str),
        (types.is_binary, bytes),
        (types.is_date, dt.date),
        (types.is_time, dt.time),
        (types.is_decimal, Decimal),
    )
    return {_NONE, *(kind for check, kind in by_check if check(type_))}


def _fit(value: Any, type_: Any, unit: str) -> Any:
    """Convert a value for Arrow; raise if it does not fit the type."""
    if value is None:
        return None
    converted = _convert(value, type_, unit)
    if not pa.types.is_nested(type_):
        pa.array([converted], type_)
    return converted


def _convert(value: Any, type_: Any, unit: str) -> Any:
    types = pa.types
    if isinstance(type_, pa.StructType):
        return {f.name: _fit(_mapping(value).get(f.name), f.type, unit) for f in type_.fields}
    if isinstance(type_, pa.MapType):
        return [(_fit(k, type_.key_type, unit), _fit(v, type_.item_type, unit)) for k, v in _entries(value)]
    if isinstance(type_, pa.ListType):
        return [_fit(item, type_.value_type, unit) for item in _only(value, list)]
    if types.is_string(type_):
        return text(value)
    if types.is_timestamp(type_):
        return _moment(value, type_, unit)
    if types.is_date(type_):
        return _day(value)
    if types.is_decimal(type_):
        return _decimal(value)
    if types.is_floating(type_):
        return float(_only(value, (int, float, Decimal), but=bool))
    if types.is_integer(type_):
        return _only(value, int, but=bool)
    if types.is_binary(type_):
        return value.encode() if isinstance(value, str) else _only(value, bytes)
    if types.is_duration(type_):
        return dt.timedelta(microseconds=_only(value, int, but=bool))
    return _only(value, bool if types.is_boolean(type_) else dt.time)


def _only(value: Any, kind: Any, but: Any = ()) -> Any:
    if not isinstance(value, kind) or isinstance(value, but):
        raise TypeError(value)
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return dict(_only(value, dict))


def _entries(value: Any) -> list[tuple[Any, Any]]:
    """A map, or a list of entries: Avro has maps with keys of text only."""
    if isinstance(value, dict):
        return list(value.items())
    return [(entry["key"], entry["value"]) for entry in _only(value, list)]


def _moment(value: Any, type_: Any, unit: str) -> Any:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        micros = value // 1000 if unit == "ns" else value * _MICROS[unit]
        value = _EPOCH + dt.timedelta(microseconds=micros)
    elif not isinstance(value, dt.datetime):
        value = dt.datetime.combine(_only(value, dt.date), dt.time())
    if type_.tz is None:
        return value.replace(tzinfo=None)
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _day(value: Any) -> Any:
    if isinstance(value, str):
        return dt.date.fromisoformat(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH_DAY + dt.timedelta(days=value)
    return value.date() if isinstance(value, dt.datetime) else _only(value, dt.date)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(_only(value, (int, str, Decimal), but=bool))


def text(value: Any) -> str:
    """Render a value as text: for a STRING column, and for errors."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case uuid.UUID() | int() | float():
            return str(value)
        case dict() | list():
            return json.dumps(value, default=text, ensure_ascii=False, separators=(",", ":"))
    return str(json_value(value))
