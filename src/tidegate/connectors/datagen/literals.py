"""Parsers of options to values of a column's type. They raise ValueError."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = 86_400_000_000
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32}


def microseconds(text: str) -> int:
    """Parse an ISO time to microseconds since the epoch; UTC unless it has a time zone."""
    time = dt.datetime.fromisoformat(text.strip())
    return duration_us((time if time.tzinfo else time.replace(tzinfo=dt.UTC)) - _EPOCH)


def duration_us(duration: dt.timedelta) -> int:
    return duration // dt.timedelta(microseconds=1)


def whole(type_: pa.DataType) -> Callable[[str], int]:
    """Return a parser to the integer that represents a value: days of a date, unscaled decimals, and so on."""

    def parse(text: str) -> int:
        number = _integer(text, type_)
        low, high = limits(type_)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return parse


def _integer(text: str, type_: pa.DataType) -> int:
    if pa.types.is_timestamp(type_):
        return microseconds(text)
    if pa.types.is_date(type_):
        return microseconds(text) // _DAY
    if isinstance(type_, pa.Decimal128Type):
        scaled = _decimal(text).scaleb(type_.scale)
        if scaled % 1:
            raise ValueError(text)
        return int(scaled)
    return int(text)


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except ArithmeticError:
        raise ValueError(text) from None
    if not number.is_finite():
        raise ValueError(text)
    return number


def limits(type_: pa.DataType) -> tuple[int, int]:
    """Return the smallest and largest integer that represents a value of the type."""
    if isinstance(type_, pa.Decimal128Type):
        most = 10 ** min(type_.precision, 18) - 1
        return -most, most
    bound = 1 << (_BITS.get(type_, 64) - 1)
    return -bound, bound - 1


def default_range(type_: pa.DataType) -> tuple[int, int]:
    """Return the default range: 0 to 1000, as far as it fits; the year 2024 for times."""
    if pa.types.is_timestamp(type_):
        return microseconds("2024-01-01"), microseconds("2025-01-01") - 1
    if pa.types.is_date(type_):
        return microseconds("2024-01-01") // _DAY, microseconds("2024-12-31") // _DAY
    scale = 10**type_.scale if isinstance(type_, pa.Decimal128Type) else 1
    return 0, min(1000 * scale, limits(type_)[1])


def listed(type_: pa.DataType) -> Callable[[str], pa.Array[Any]]:
    """Return a parser of comma-separated values; an empty one is NULL unless the column is text."""

    def parse(text: str) -> pa.Array[Any]:
        return pa.array([_value(part.strip(), type_) for part in text.split(",")], type=type_)

    return parse


def _value(text: str, type_: pa.DataType) -> Any:
    types = pa.types
    if types.is_string(type_):
        return text
    if text == "":
        return None
    if types.is_boolean(type_):
        return {"true": True, "false": False}[text.casefold()]
    if types.is_floating(type_):
        return float(text)
    number = whole(type_)(text)
    if isinstance(type_, pa.Decimal128Type):
        return Decimal(number).scaleb(-type_.scale)
    if types.is_timestamp(type_):
        zoned = _EPOCH + dt.timedelta(microseconds=number)
        return zoned if getattr(type_, "tz", None) else zoned.replace(tzinfo=None)
    return _EPOCH.date() + dt.timedelta(days=number) if types.is_date(type_) else number


def fraction(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def weights(count: int) -> Callable[[str], tuple[float, ...]]:
    """Return a parser of `count` comma-separated weights."""

    def parse(text: str) -> tuple[float, ...]:
        numbers = tuple(float(part) for part in text.split(","))
        if len(numbers) != count or not all(0 <= n < float("inf") for n in numbers) or sum(numbers) == 0:
            raise ValueError(text)
        return numbers

    return parse
