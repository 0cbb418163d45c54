"""Vectorised conversion of whole columns, where the result is certain to be the same as value by value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_NATIVE: dict[type, tuple[pa.DataType, ...]] = {
    bool: (pa.bool_(),),
    int: (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    float: (pa.float64(),),
    str: (pa.string(),),
    bytes: (pa.binary(),),
    dt.date: (pa.date32(),),
    dt.datetime: (pa.timestamp("us", tz="UTC"),),
    dt.timedelta: (pa.duration("us"),),
}

FIRST_DAY, LAST_DAY = dt.date.min.toordinal() - 719_163, dt.date.max.toordinal() - 719_163
"""The days of the years 1 to 9999, counted from 1970: what Python, SQL and most receivers of rows can write."""
_SECONDS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def native(values: Sequence[Any], target: pa.DataType) -> pa.Array[Any] | None:
    """The column, if all values are None or have the Python type that corresponds to `target`, and fit."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values), target)
    if len(kinds) > 1 or target not in _NATIVE.get(kinds.pop(), ()):
        return None
    try:
        return pa.array(values, type=target)
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def cast(array: pa.ChunkedArray[Any], target: pa.DataType) -> pa.ChunkedArray[Any] | None:
    """The column cast to `target`, if every value keeps its exact meaning; None if it must be done value by value."""
    if isinstance(array.type, pa.DictionaryType):
        array = array.cast(array.type.value_type)
    if array.type == target:
        return array
    if not _keeps_meaning(array.type, target):
        return None
    try:
        return _bridged(array, target).cast(target, safe=not _drops_nanoseconds(array.type, target))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _bridged(array: pa.ChunkedArray[Any], target: pa.DataType) -> pa.ChunkedArray[Any]:
    """Cast through an intermediate type where Arrow needs one: timestamps without a zone are UTC, and integers become
    wide decimals first."""
    source = array.type
    if isinstance(source, pa.TimestampType) and source.tz is None and getattr(target, "tz", None):
        return array.cast(pa.timestamp(source.unit, tz="UTC"))
    if isinstance(target, pa.Decimal128Type) and source in _INTEGERS:
        return array.cast(pa.decimal128(38, target.scale))
    return array


def _drops_nanoseconds(source: pa.DataType, target: pa.DataType) -> bool:
    return pa.types.is_timestamp(target) and getattr(source, "unit", "") == "ns"


def _keeps_meaning(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_timestamp(target):
        return bool(types.is_date(source) or (types.is_timestamp(source) and _zones_agree(source, target)))
    if types.is_date(target):
        return bool(types.is_date(source))
    if target in _INTEGERS or types.is_decimal(target):
        return source in _INTEGERS or (types.is_decimal(target) and types.is_decimal(source))
    if types.is_floating(target):
        return source in _INTEGERS or types.is_floating(source)
    return _same_family(source, target)


def _zones_agree(source: pa.DataType, target: pa.DataType) -> bool:
    return getattr(target, "tz", None) is not None or getattr(source, "tz", None) is None


def _same_family(source: pa.DataType, target: pa.DataType) -> bool:
    """Other layouts of the same values: large and view types, units of durations and times."""
    types = pa.types
    if types.is_string(target):
        return bool(types.is_large_string(source) or types.is_string_view(source))
    if types.is_binary(target):
        return bool(types.is_large_binary(source) or types.is_binary_view(source))
    if types.is_time(target) or types.is_duration(target):
        return bool(types.is_time(source) if types.is_time(target) else types.is_duration(source))
    return _nested_alike(source, target)


def _nested_alike(source: pa.DataType, target: pa.DataType) -> bool:
    """True for lists and structs whose parts differ in names and layouts only."""
    if isinstance(target, pa.ListType) and isinstance(source, (pa.ListType, pa.LargeListType)):
        return _alike(source.value_type, target.value_type)
    if isinstance(target, pa.StructType) and isinstance(source, pa.StructType):
        same_names = [field.name for field in source.fields] == [field.name for field in target.fields]
        return same_names and all(_alike(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True))
    if isinstance(target, pa.MapType) and isinstance(source, pa.MapType):
        return _alike(source.key_type, target.key_type) and _alike(source.item_type, target.item_type)
    return False


def _alike(source: pa.DataType, target: pa.DataType) -> bool:
    return source == target or _same_family(source, target)


def first_outside_of_years(array: pa.Array[Any] | pa.ChunkedArray[Any]) -> int | None:
    """The index of the first value with a time before the year 1 or after 9999, None if there is none. Times inside of
    nested values count too."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return _first_outside(array)
    if not pa.types.is_nested(kind) or not has_times(kind):
        return None
    found = (index for index in range(len(array)) if _is_outside(array.slice(index, 1)))
    return next(found, None) if _is_outside(array) else None


def has_times(kind: pa.DataType) -> bool:
    """True for dates and timestamps, and types that contain some."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or any(map(has_times, parts))


def _is_outside(array: Any) -> bool:
    kind = array.type
    if pa.types.is_map(kind):
        offsets, entries = array.offsets, (array.keys, array.items)
        start, end = offsets[0].as_py(), offsets[-1].as_py()
        return any(first_outside_of_years(part.slice(start, end - start)) is not None for part in entries)
    if pa.types.is_list(kind):
        return first_outside_of_years(array.flatten()) is not None
    return any(first_outside_of_years(part) is not None for part in array.flatten())


def _first_outside(array: Any) -> int | None:
    days = pa.types.is_date32(array.type)
    scale = 1 if days else _SECONDS[array.type.unit] * 86_400
    numbers = array.view(pa.int32() if days else pa.int64())
    low, high = FIRST_DAY * scale, (LAST_DAY + 1) * scale
    if not days:
        low, high = max(low, -(2**63)), min(high, 2**63 - 1)
    outside = pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, high))
    index = pc.index(outside, True).as_py()
    return None if index < 0 else index
