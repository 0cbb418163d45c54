"""Spark SQL for the type that a parser reads a column as, and for the conversion of that to the column's value.

`from_json` and `from_csv` read times in one format only, and maps with string keys only. Other columns are read as text
and converted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.core.options import Bag
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_type, spark_name

UNITS = ("s", "ms", "us", "ns")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FROM_NUMBER = {
    "s": "timestamp_seconds({})",
    "ms": "timestamp_millis({})",
    "us": "timestamp_micros({})",
    "ns": "timestamp_micros({} DIV 1000)",
}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


@dataclass(frozen=True)
class Times:
    """How times are written: the unit of numbers, and patterns of text (None: ISO 8601). `day_numbers`: dates can be
    numbers of days."""

    unit: str = "s"
    timestamp_format: str | None = None
    date_format: str | None = None
    day_numbers: bool = False


def times_of(bag: Bag, unit: str = "s", day_numbers: bool = False) -> Times:
    """Take the options of times out of the bag."""
    return Times(
        unit=bag.choice("timestamp_unit", UNITS, unit) or unit,
        timestamp_format=bag.text("timestamp_format"),
        date_format=bag.text("date_format"),
        day_numbers=day_numbers,
    )


def wire_fields(columns: Schema, times: Times) -> str:
    """Return the columns with the types that Spark's parser reads."""
    return ", ".join(f"{identifier(c.name)} {wire_type(c, times)}" for c in columns)


def wire_type(column: Column, times: Times) -> str:
    """Return the type that Spark's parser reads: STRING for what is converted later."""
    type_ = arrow_type(column.type)
    return _wire(type_, times) if _converts(type_, times) else column.type


def value(text: str, column: Column, times: Times) -> str:
    """Expression: the value of a column, from what the parser has read."""
    return _value(text, arrow_type(column.type), times)


def fault(text: str, made: str, column: Column, times: Times) -> str | None:
    """Expression: the text is not a value of the column; None if that cannot happen. `made` is the converted value;
    only nested values must be converted again for this test."""
    type_ = arrow_type(column.type)
    if _is_leaf(type_, times):
        return f"({text} IS NOT NULL AND {made} IS NULL)"
    return _fault(text, type_, times) if _converts(type_, times) else None


def is_nested(column: Column) -> bool:
    """True if a part of a value can be wrong although the value is not NULL."""
    return bool(pa.types.is_nested(arrow_type(column.type)))


def struct(source: str, columns: Schema, times: Times) -> str:
    """Expression: the values of all columns, as a struct."""
    if not any(_converts(arrow_type(c.type), times) for c in columns):
        return source
    return _named((c.name, value(f"{source}.{identifier(c.name)}", c, times)) for c in columns)


def bare(text: str, column: Column, times: Times) -> str:
    """Expression: the value of a column from bare text; NULL if it is not one."""
    type_ = arrow_type(column.type)
    if pa.types.is_string(type_):
        return text
    if _is_leaf(type_, times):
        return _value(text, type_, times)
    return "NULL" if pa.types.is_nested(type_) else f"try_cast({text} AS {column.type})"


def _named(pairs: Any) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {part}' for name, part in pairs)})"


def _is_leaf(type_: pa.DataType, times: Times) -> bool:
    """True if a value is read as text and converted."""
    types = pa.types
    return types.is_timestamp(type_) or types.is_time(type_) or (types.is_date(type_) and times.day_numbers)


def _converts(type_: Any, times: Times) -> bool:
    if isinstance(type_, pa.MapType):
        return not pa.types.is_string(type_.key_type) or _converts(type_.item_type, times)
    if isinstance(type_, pa.StructType):
        return any(_converts(field.type, times) for field in type_.fields)
    if isinstance(type_, pa.ListType):
        return _converts(type_.value_type, times)
    return _is_leaf(type_, times)


def _wire(type_: Any, times: Times) -> str:
    if isinstance(type_, pa.MapType):
        return f"MAP<STRING, {_wire(type_.item_type, times)}>"
    if isinstance(type_, pa.StructType):
        return f"STRUCT<{', '.join(f'{identifier(f.name)}: {_wire(f.type, times)}' for f in type_.fields)}>"
    if isinstance(type_, pa.ListType):
        return f"ARRAY<{_wire(type_.value_type, times)}>"
    return "STRING" if _is_leaf(type_, times) else spark_name(type_)


def _value(text: str, type_: Any, times: Times, depth: int = 0) -> str:
    if not _converts(type_, times):
        return text
    item = f"i{depth}"
    if isinstance(type_, pa.MapType):
        keyed = _with_keys(text, type_, times)
        if not _converts(type_.item_type, times):
            return keyed
        return f"transform_values({keyed}, (k{depth}, {item}) -> {_value(item, type_.item_type, times, depth + 1)})"
    if isinstance(type_, pa.StructType):
        fields = ((f.name, _value(f"{text}.{identifier(f.name)}", f.type, times, depth)) for f in type_.fields)
        return f"IF({text} IS NULL, NULL, {_named(fields)})"
    if isinstance(type_, pa.ListType):
        return f"transform({text}, {item} -> {_value(item, type_.value_type, times, depth + 1)})"
    return _moment(text, type_, times)


def _fault(text: str, type_: Any, times: Times, depth: int = 0) -> str:
    """Expression: a part of the value is wrong. A key that cannot be converted makes its whole map NULL."""
    item = f"i{depth}"
    if not _converts(type_, times):
        return "false"
    if isinstance(type_, pa.MapType):
        items = f"exists(map_values({text}), {item} -> {_fault(item, type_.item_type, times, depth + 1)})"
        keys = "false" if pa.types.is_string(type_.key_type) else f"NOT {_keys_fit(text, type_, times)}"
        return f"({text} IS NOT NULL AND ({keys} OR {items}))"
    if isinstance(type_, pa.StructType):
        return f"({' OR '.join(_fault(f'{text}.{identifier(f.name)}', f.type, times, depth) for f in type_.fields)})"
    if isinstance(type_, pa.ListType):
        return f"coalesce(exists({text}, {item} -> {_fault(item, type_.value_type, times, depth + 1)}), false)"
    return f"({text} IS NOT NULL AND {_moment(text, type_, times)} IS NULL)"


def _with_keys(text: str, type_: pa.MapType[Any, Any, Any], times: Times) -> str:
    """Expression: a map with converted keys, NULL if some do not fit, since Spark would fail the step."""
    if pa.types.is_string(type_.key_type):
        return text
    converted = f"transform_keys({text}, (k, v) -> {_key(type_, times)})"
    return f"CASE WHEN {_keys_fit(text, type_, times)} THEN {converted} END"


def _keys_fit(text: str, type_: pa.MapType[Any, Any, Any], times: Times) -> str:
    """Expression: every key of a map can be converted, and they are distinct."""
    made = f"filter(transform(map_keys({text}), k -> {_key(type_, times)}), k -> k IS NOT NULL)"
    return f"(size(array_distinct({made})) = size(map_keys({text})))"


def _key(type_: pa.MapType[Any, Any, Any], times: Times) -> str:
    leaf = _is_leaf(type_.key_type, times)
    return _value("k", type_.key_type, times) if leaf else f"try_cast(k AS {spark_name(type_.key_type)})"


def _moment(text: str, type_: Any, times: Times) -> str:
    """Expression: a date or time from text. ISO dates are not tried as numbers: a failed cast is expensive."""
    if pa.types.is_time(type_):
        return f"try_cast({text} AS TIME)"
    is_day = pa.types.is_date(type_)
    pattern = times.date_format if is_day else times.timestamp_format
    name = "DATE" if is_day else "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    number = _day(text) if is_day else _instant(text, name, times.unit)
    if pattern is not None:
        return f"coalesce(CAST(try_to_timestamp({text}, {literal(pattern)}) AS {name}), {number})"
    cast = f"try_cast({text} AS {name})"
    return f"CASE WHEN substring({text}, 5, 1) = '-' THEN {cast} WHEN {_is_number(text)} THEN {number} ELSE {cast} END"


def _is_number(text: str) -> str:
    return f"{text} RLIKE '^-?[0-9]+([.][0-9]+)?([eE][+]?[0-9]+)?$'"


def _day(text: str) -> str:
    number = f"try_cast({text} AS INT)"
    return f"CASE WHEN {number} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN date_from_unix_date({number}) END"


def _instant(text: str, name: str, unit: str) -> str:
    """Expression: a time from a number, if it is in the years 1 to 9999: others are probably in another unit."""
    number = f"try_cast({text} AS {'DECIMAL(20,6)' if unit == 's' else 'BIGINT'})"
    first, last = _FIRST_SECOND * _PER_SECOND[unit], (_LAST_SECOND + 1) * _PER_SECOND[unit] - 1
    first, last = max(first, -(2**63) + 1), min(last, 2**63 - 1)
    return f"CASE WHEN {number} BETWEEN {first} AND {last} THEN CAST({_FROM_NUMBER[unit].format(number)} AS {name}) END"
