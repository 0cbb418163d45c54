"""One Python value for one column: what each type accepts, exactly.

A converter returns the value as Arrow expects it, or raises `InvalidValue` with the reason. It never loses anything: a
number that does not fit, text in place of a number, or a fraction that would be cut off is rejected.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from tidegate.core.types import spark_name
from tidegate.errors import did_you_mean
from tidegate.runtime.python_values import InvalidValue, UnknownField, excerpt, mapping_of, plain

Converter = Callable[[Any], Any]

_INTEGER_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_WIDE = Context(prec=100)


def converter(target: pa.DataType) -> Converter:
    """The converter of a type. NULL in all its Python spellings becomes None for every type."""
    convert = _converter_of_present(target)

    def nullable(value: Any) -> Any:
        try:
            value = plain(value)
            return None if value is None else convert(value)
        except InvalidValue:
            raise
        except Exception as problem:
            raise _is_not(value, target) from problem

    return nullable


def _converter_of_present(target: pa.DataType) -> Converter:
    if target in _INTEGER_BITS:
        return _integer(target)
    if pa.types.is_decimal(target):
        return _decimal(target)
    if pa.types.is_timestamp(target):
        return _timestamp(target)
    if pa.types.is_map(target):
        return _map(target)
    if pa.types.is_list(target):
        return _array(target)
    if pa.types.is_struct(target):
        return _struct(target)
    return {
        pa.bool_(): _exactly(target, bool),
        pa.string(): _text,
        pa.binary(): _binary,
        pa.float32(): _floating(target),
        pa.float64(): _floating(target),
        pa.date32(): _date,
        pa.time64("ns"): _exactly(target, dt.time),
        pa.duration("us"): _exactly(target, dt.timedelta),
        pa.null(): _exactly(target, type(None)),
    }[target]


def _is_not(value: Any, target: pa.DataType, hint: str | None = None) -> InvalidValue:
    return InvalidValue(f"{excerpt(value)} is not a {spark_name(target)}", hint=hint)


def _exactly(target: pa.DataType, kind: type) -> Converter:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise _is_not(value, target)

    return convert


def _text(value: Any) -> str:
    if not isinstance(value, str):
        hint = "decode bytes first: value.decode()" if isinstance(value, (bytes, bytearray)) else None
        raise _is_not(value, pa.string(), hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        hint = "it has half of a character: value.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        raise InvalidValue(f"{excerpt(value)} is not Unicode text", hint=hint) from None
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise _is_not(value, pa.binary(), "encode text first: value.encode()" if isinstance(value, str) else None)


def _integer(target: pa.DataType) -> Converter:
    bound = 1 << (_INTEGER_BITS[target] - 1)

    def convert(value: Any) -> int:
        whole = _whole(value, target)
        if -bound <= whole < bound:
            return whole
        raise InvalidValue(
            f"{excerpt(value)} does not fit into {spark_name(target)}", hint=f"it holds {-bound} to {bound - 1}"
        )

    return convert


def _whole(value: Any, target: pa.DataType) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value == int(value):
        return int(value)
    raise _is_not(value, target)


def _floating(target: pa.DataType) -> Converter:
    def convert(value: Any) -> float:
        if isinstance(value, (float, int, Decimal)) and not isinstance(value, bool):
            return float(value)
        raise _is_not(value, target)

    return convert


def _decimal(target: pa.DataType) -> Converter:
    assert isinstance(target, pa.Decimal128Type)
    step = Decimal(1).scaleb(-target.scale)

    def convert(value: Any) -> Decimal:
        exact = _as_decimal(value, target)
        if _digits_fit(exact, target.precision, target.scale):
            return exact.quantize(step, context=_WIDE)
        raise InvalidValue(
            f"{excerpt(value)} does not fit into {spark_name(target)}",
            hint=f"it holds {target.precision - target.scale} digits before the point and {target.scale} after it",
        )

    return convert


def _as_decimal(value: Any, target: pa.DataType) -> Decimal:
    """Floats are converted by their shortest representation: 0.1 is 0.1. Text is accepted, as decimals are often
    written so."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise _is_not(value, target)
    try:
        exact = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise _is_not(value, target) from None
    if not exact.is_finite():
        raise _is_not(value, target)
    return exact


def _digits_fit(value: Decimal, precision: int, scale: int) -> bool:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return True
    zeros = next(number for number, digit in enumerate(reversed(digits)) if digit)
    return -exponent - zeros <= scale and len(digits) + exponent <= precision - scale


def _timestamp(target: pa.DataType) -> Converter:
    zoned = isinstance(target, pa.TimestampType) and target.tz is not None

    def convert(value: Any) -> dt.datetime:
        moment = _moment(value, target)
        if zoned:
            return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
        if moment.tzinfo is not None:
            raise _is_not(value, target, "it has a time zone: use a TIMESTAMP column, or leave the zone out")
        return moment

    return convert


def _moment(value: Any, target: pa.DataType) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    hint = "write it as '2024-05-01 12:00:03.250', or pass a datetime"
    if not isinstance(value, str):
        raise _is_not(value, target, hint)
    try:
        return dt.datetime.fromisoformat(value.strip())
    except ValueError:
        raise _is_not(value, target, hint) from None


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    hint = "write it as '2024-05-01', or pass a date"
    if not isinstance(value, str):
        raise _is_not(value, pa.date32(), hint)
    try:
        return dt.date.fromisoformat(value.strip())
    except ValueError:
        raise _is_not(value, pa.date32(), hint) from None


def _inside(path: str, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except InvalidValue as problem:
        raise type(problem)(problem.reason, path + problem.path, problem.hint) from None


def _array(target: pa.DataType) -> Converter:
    assert isinstance(target, pa.ListType)
    element = converter(target.value_type)

    def convert(value: Any) -> list[Any]:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise _is_not(value, target)
        return [_inside(f"[{i}]", element, item) for i, item in enumerate(value)]

    return convert


def _map(target: pa.DataType) -> Converter:
    assert isinstance(target, pa.MapType)
    key_of, value_of = converter(target.key_type), converter(target.item_type)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, (Mapping, list, tuple)):
            raise _is_not(value, target)
        pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
        if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
            raise _is_not(value, target)
        if any(plain(key) is None for key, _ in pairs):
            raise InvalidValue(f"a key of a {spark_name(target)} is NULL")
        return [(_inside(".key", key_of, k), _inside(f"[{excerpt(k)}]", value_of, v)) for k, v in pairs]

    return convert


def _struct(target: pa.DataType) -> Converter:
    assert isinstance(target, pa.StructType)
    parts = {field.name: converter(field.type) for field in target.fields}

    def convert(value: Any) -> dict[str, Any]:
        fields = mapping_of(value)
        if fields is None:
            fields = _by_position(value, tuple(parts), target)
        for name in fields:
            if name not in parts:
                raise UnknownField(str(name), hint=did_you_mean(str(name), parts, "fields"))
        return {name: _inside(f".{name}", part, fields.get(name)) for name, part in parts.items()}

    return convert


def _by_position(value: Any, names: Sequence[str], target: pa.DataType) -> Mapping[str, Any]:
    if not isinstance(value, (list, tuple)) or len(value) != len(names):
        raise _is_not(value, target)
    return dict(zip(names, value, strict=True))
