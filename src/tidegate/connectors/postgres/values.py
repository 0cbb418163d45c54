"""Values that PostgreSQL sends as text, converted to Arrow columns."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.contract import SourceSpec
from tidegate.core.types import arrow_type
from tidegate.errors import Error, enumerated, make, nearest

Texts = Sequence[str | None]
Faults = dict[int, str]

BOOL, JSON, BLANK_PADDED, JSONB = 16, 114, 1042, 3802
NUMBERS = (20, 21, 23, 26, 700, 701, 1700)
_TRUTH = {"t": True, "true": True, "f": False, "false": False}
_LARGEST_FLOAT = 3.4028235677973366e38
_JSON_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_ELEMENT = re.compile(r'(?P<sign>[{},])|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^{},"]+)', re.DOTALL)
_BOUNDS = re.compile(r"(\[-?\d+:-?\d+\])+=")
_INTERVAL = re.compile(
    r"(?:(?P<days>-?\d+) days?)?\s?(?:(?P<sign>[-+]?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?"
)
_MISFITS = (pa.ArrowException, ArithmeticError, LookupError, ValueError)


def convertible(type_: Any) -> bool:
    """True if PostgreSQL has values for a column of this type."""
    if isinstance(type_, pa.ListType):
        return convertible(type_.value_type)
    return not (pa.types.is_nested(type_) or pa.types.is_null(type_))


def array(texts: Texts, type_: Any, exact: bool = False) -> tuple[pa.Array, Faults]:
    """Convert texts to an array, and return with it the texts that are no values of the type, by index; they are NULL
    in the array. `exact`: a number that would be rounded is none either, since two keys must not become one.

    Arrow converts a column as a whole; only if that fails, values are converted one by one.
    """
    if isinstance(type_, pa.ListType):
        return _lists(texts, type_)
    converted = _at_once(texts, type_)
    return (converted, {}) if converted is not None else _one_by_one(texts, type_, exact)


def cast_to_text(texts: Texts, oid: int) -> Texts:
    """Convert values as a cast to text does: `true` instead of `t`, no padding of CHAR(n)."""
    if oid == BOOL:
        return [None if text is None else "true" if text == "t" else "false" for text in texts]
    if oid == BLANK_PADDED:
        return [None if text is None else text.rstrip(" ") for text in texts]
    return texts


def row_text(names: Sequence[str], oids: Sequence[int], row: Texts) -> str:
    """Render a row as JSON."""
    pairs = (f"{_quoted(n)}:{_json_value(t, o)}" for n, o, t in zip(names, oids, row, strict=True))
    return "{" + ",".join(pairs) + "}"


def _json_value(text: str | None, oid: int) -> str:
    if text is None:
        return "null"
    as_is = oid in (BOOL, JSON, JSONB) or (oid in NUMBERS and _JSON_NUMBER.fullmatch(text))
    return text if as_is else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _at_once(texts: Texts, type_: Any) -> Any:
    """Convert a whole column, None if that is not possible for all values."""
    types = pa.types
    strings: Any = pa.array(texts, pa.string())
    if types.is_string(type_):
        return strings
    try:
        if types.is_timestamp(type_):
            return pc.replace_substring_regex(strings, r"\+00$", "").cast(pa.timestamp("us")).cast(type_)
        if types.is_integer(type_) or types.is_decimal(type_) or types.is_date(type_):
            return strings.cast(type_)
        if types.is_floating(type_):
            numbers = strings.cast(type_)
            return None if pc.any(pc.is_inf(numbers)).as_py() else numbers
    except pa.ArrowInvalid:
        return None
    return None


def _one_by_one(texts: Texts, type_: Any, exact: bool) -> tuple[pa.Array, Faults]:
    parse = _parser(type_, exact)
    values, faults = [], {}
    for index, text in enumerate(texts):
        try:
            values.append(None if text is None else parse(text))
        except _MISFITS:
            values.append(None)
            faults[index] = text or ""
    return pa.array(values, type_), faults


def _parser(type_: Any, exact: bool) -> Any:
    types = pa.types
    if types.is_decimal(type_):
        return lambda text: _decimal(text, type_, exact)
    if types.is_integer(type_):
        return lambda text: _integer(text, type_.bit_width)
    if types.is_floating(type_):
        return lambda text: _float(text, type_.bit_width)
    if types.is_timestamp(type_):
        return lambda text: _moment(text, type_.tz is not None)
    by_check = (
        (types.is_boolean, lambda text: _TRUTH[text]),
        (types.is_date, _day),
        (types.is_time, _time),
        (types.is_binary, _bytes),
        (types.is_duration, _interval),
    )
    return next(parse for check, parse in by_check if check(type_))


def _number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite() or "_" in text:
        raise ValueError(text)
    return number


def _decimal(text: str, type_: Any, exact: bool) -> Decimal:
    """Digits beyond the scale are rounded, as PostgreSQL and Spark do; too many before the point are a misfit."""
    context, number = Context(prec=type_.precision, rounding=ROUND_HALF_UP), _number(text)
    rounded = number.quantize(Decimal(1).scaleb(-type_.scale), context=context)
    if exact and rounded != number:
        raise ValueError(text)
    return rounded


def _integer(text: str, bits: int) -> int:
    number = _number(text)
    integer = int(number)
    if integer != number or not -(1 << bits - 1) <= integer < 1 << bits - 1:
        raise ValueError(text)
    return integer


def _float(text: str, bits: int) -> float:
    number = float(text)
    beyond = math.isinf(number) if bits == 64 else abs(number) >= _LARGEST_FLOAT
    if (beyond and "inf" not in text.casefold()) or "_" in text:
        raise OverflowError(text)
    return number


def _moment(text: str, zoned: bool) -> dt.datetime:
    """Parse a timestamp; one without a time zone is in UTC."""
    time = dt.datetime.fromisoformat(text)
    in_utc = time.astimezone(dt.UTC) if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return in_utc if zoned else in_utc.replace(tzinfo=None)


def _day(text: str) -> dt.date:
    time = _moment(text, zoned=False)
    if time.time() != dt.time():
        raise ValueError(text)
    return time.date()


def _time(text: str) -> dt.time:
    time = dt.time.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError(text)
    return time


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _interval(text: str) -> dt.timedelta:
    """`3 days 04:05:06.5`; months have no length."""
    match = _INTERVAL.fullmatch(text)
    if match is None or not text:
        raise ValueError(text)
    clock = dt.timedelta(
        hours=int(match["hours"] or 0),
        minutes=int(match["minutes"] or 0),
        microseconds=int(Decimal(match["seconds"] or 0) * 1_000_000),
    )
    return dt.timedelta(days=int(match["days"] or 0)) + (-clock if match["sign"] == "-" else clock)


def _lists(texts: Texts, type_: Any) -> tuple[pa.Array, Faults]:
    """Convert arrays; the elements of all of them are converted as one column."""
    nested = pa.types.is_list(type_.value_type)
    elements: list[str | None] = []
    owners: list[int] = []
    ends, faults = [0], {}
    for index, text in enumerate(texts):
        try:
            parsed = [] if text is None else array_elements(text, nested)
        except ValueError:
            parsed, faults[index] = [], text or ""
        elements += parsed
        owners += [index] * len(parsed)
        ends.append(len(elements))
    inner, inner_faults = array(elements, type_.value_type)
    faults |= {owners[at]: texts[owners[at]] or "" for at in inner_faults}
    absent = pa.array([text is None or index in faults for index, text in enumerate(texts)], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, type_, mask=absent), faults


def array_elements(text: str, nested: bool) -> list[str | None]:
    """Parse the elements of `{1,NULL,"a b"}`; if `nested`, those of `{{1,2},{3}}` are texts of arrays."""
    body = text[bounds.end() :] if (bounds := _BOUNDS.match(text)) else text
    if not body.startswith("{") or not body.endswith("}"):
        raise ValueError(text)
    elements: list[str | None] = []
    depth, start, at = 0, 0, 0
    while at < len(body):
        token = _ELEMENT.match(body, at)
        if token is None:
            raise ValueError(text)
        match token["sign"]:
            case "{":
                depth += 1
                start = at if depth == 2 else start
                if depth == 2 and not nested:
                    raise ValueError(text)
            case "}":
                depth -= 1
                if depth == 1:
                    elements.append(body[start : token.end()])
            case None if depth == 1:
                elements.append(_element(token))
        at = token.end()
    return elements


def _element(token: re.Match[str]) -> str | None:
    if token["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", token["quoted"], flags=re.DOTALL)
    return None if token["bare"] == "NULL" else token["bare"]


SHOWN = 80


def typed(spec: SourceSpec, texts: Sequence[Texts]) -> tuple[list[pa.Array], dict[int, str]]:
    """Convert columns to arrays, and return with them the errors of rows that do not fit the relation, by index."""
    arrays, problems = [], dict[int, str]()
    for column, column_texts in zip(spec.columns, texts, strict=True):
        converted, faults = array(column_texts, arrow_type(column.type), exact=column.name in spec.key)
        arrays.append(converted)
        for index, text in faults.items():
            problems.setdefault(index, f"{column.name}: '{text[:SHOWN]}' is not a {column.type.upper()}")
        if not column.nullable and column.name not in spec.key and None in column_texts:
            for index in (at for at, text in enumerate(column_texts) if text is None):
                problems.setdefault(index, f"{column.name} is NULL, but the column is NOT NULL")
    return arrays, problems


def column_index(name: str, existing: Sequence[str], origin: str, relation: str, further: str = "") -> int:
    """Find the index of a column among those of an origin. An exact match is preferred to one in another case.
    `further` is added to the hint if there is none."""
    same = [at for at, other in enumerate(existing) if other == name]
    alike = same or [at for at, other in enumerate(existing) if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    raise _no_column(name, existing, origin, relation, bool(alike), further)


def _no_column(name: str, existing: Sequence[str], origin: str, relation: str, several: bool, further: str) -> Error:
    suggestions = nearest(name, existing)
    fix = (
        f"did you mean {enumerated(suggestions)}?" if suggestions else f"leave {name} out of the columns of {relation}"
    )
    fix = f"{fix}{' ' if suggestions else ': '}{further}" if further else fix
    return make(
        "PIPELINE_FAILED",
        message=f"{origin} of {relation} has {'several columns' if several else 'no column'} {name}",
        detail=f"its columns are {', '.join(existing)}",
        hint=f"rename all but one of them in the query: SELECT ... AS {name}" if several else fix,
    )
