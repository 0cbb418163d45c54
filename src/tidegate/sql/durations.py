"""Durations: `INTERVAL '10' SECOND`, `'1 minute'`, `5 SECONDS`, and the short `1h30m`, `500ms`.

Reads them from a statement and computes their length. Durations in quotes are parsed by core/durations.py.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tidegate.core.durations import MICROS, CalendarInterval, parse_length, split_parts, unit_of
from tidegate.errors import did_you_mean
from tidegate.sql.cursor import Cursor
from tidegate.sql.spans import mark, span_of

_FIELDS = ("day", "hour", "minute", "second")
_SUFFIXES = {exp.DType.SMALLINT: "s", exp.DType.DOUBLE: "d"}
"""`5s` and `2d` are numbers to Spark: a SMALLINT and a DOUBLE."""


def length(node: exp.Expr) -> CalendarInterval | None:
    """The length of a duration: an interval, a text such as `'10 seconds'`, the short `1h30m`, or a sum of those. None
    if the expression is none of them. It may be negative, as offsets are."""
    match node:
        case exp.Paren():
            return length(node.this)
        case exp.Neg():
            return _add(CalendarInterval(), length(node.this), -1)
        case exp.Add():
            return _add(length(node.left), length(node.right), 1)
        case exp.Sub():
            return _add(length(node.left), length(node.right), -1)
        case exp.Interval():
            return _interval(node)
        case exp.Literal() if node.is_string:
            return parse_length(node.name)
        case exp.Column() if len(node.parts) == 1:
            return parse_length(node.name)
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.this in _SUFFIXES:
            return parse_length(node.this.name + _SUFFIXES[node.to.this])
    return None


def _add(left: CalendarInterval | None, right: CalendarInterval | None, sign: int) -> CalendarInterval | None:
    if left is None or right is None:
        return None
    return CalendarInterval(left.micros + sign * right.micros, left.months + sign * right.months)


def _interval(node: exp.Interval) -> CalendarInterval | None:
    value = node.this.sql(dialect="spark").strip("'") if node.this is not None else ""
    unit = node.args.get("unit")
    if unit is None:
        return parse_length(value)
    if isinstance(unit, exp.IntervalSpan):
        return _parse_span(value, unit.this.name.lower(), unit.expression.name.lower())
    return parse_length(f"{value} {unit.name}")


def _parse_span(value: str, first: str, last: str) -> CalendarInterval | None:
    """`'1:30' MINUTE TO SECOND`, `'1 02:03:04.5' DAY TO SECOND`, `'1-6' YEAR TO MONTH`."""
    first, last = first.removesuffix("s"), last.removesuffix("s")
    sign = "-" if value.strip().startswith("-") else ""
    numbers = re.split(r"[ :\-]+", value.strip().lstrip("+-").strip())
    fields = ("year", "month") if first == "year" else _FIELDS
    if first not in fields or last not in fields:
        return None
    units = fields[fields.index(first) : fields.index(last) + 1]
    if len(units) != len(numbers):
        return None
    return parse_length(" ".join(f"{sign}{number} {unit}" for number, unit in zip(numbers, units, strict=True)))


LONG_UNITS = (*MICROS, "MONTH", "YEAR")
_SPELT = re.compile(r"\s*(?:interval\s+)?(?:[+-]?\s*[\d.]+\s*[a-z]+\s*)+", re.IGNORECASE)
_QUARTER = re.compile(r"quarters?", re.IGNORECASE)
USAGE = "write INTERVAL '10' SECOND, or short: 10s, 1h30m, 500ms"


def interval(text: str) -> exp.Interval | None:
    """A duration as an INTERVAL that Spark reads: `5m` -> INTERVAL '5' MINUTE, `1h30m` -> INTERVAL '5400' SECOND. None
    for text that is not a duration, and for one that is negative or mixes months with days."""
    parts = split_parts(text)
    if parts is None or any(number.is_signed() for number, _ in parts):
        return None
    if len(parts) == 1 and parts[0][0] == int(parts[0][0]) and parts[0][1] in LONG_UNITS:
        return _interval_of(str(int(parts[0][0])), parts[0][1])
    total = parse_length(text)
    if total is None or (total.months and total.micros):
        return None
    if total.months:
        return _interval_of(str(total.months), "MONTH")
    unit = next(u for u in ("SECOND", "MILLISECOND", "MICROSECOND") if total.micros % MICROS[u] == 0)
    return _interval_of(str(total.micros // MICROS[unit]), unit)


def read_duration(cursor: Cursor, after: str) -> exp.Expr:
    """The duration that must come next."""
    start = cursor.start_token()
    duration = _interval_literal(cursor) or _read_quoted(cursor) or _read_short(cursor) or _read_number_and_unit(cursor)
    if duration is None:
        cursor.fail(f"{after} must be followed by a duration{cursor.instead()}", hint=USAGE)
    mark(duration, start.start, cursor._prev.end + 1)
    return duration


def check_unit(cursor: Cursor, node: exp.Interval) -> None:
    """Reject an interval that Spark cannot read, and normalise units in place: `HOURS TO MINUTES` becomes singular, a
    quarter three months."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.Var) and _QUARTER.fullmatch(unit.name) and (number := node.this.name).isdigit():
        node.set("this", exp.Literal.string(str(3 * int(number))))
        unit.set("this", "MONTH")
    if isinstance(unit, exp.IntervalSpan):
        for edge in (unit.this, unit.expression):
            _check_word(cursor, node, edge)
            edge.set("this", _long_unit(edge.name))
    elif isinstance(unit, exp.Var):
        _check_word(cursor, node, unit)
    elif node.this is not None and node.this.is_string and not _SPELT.fullmatch(node.this.name):
        cursor.fail(f"INTERVAL '{node.this.name}' has no unit", hint=USAGE, span=span_of(node))


def _check_word(cursor: Cursor, node: exp.Interval, unit: exp.Expr) -> None:
    if not _long_unit(unit.name):
        cursor.fail(
            f"there is no unit of time {unit.name}",
            hint=did_you_mean(unit.name, LONG_UNITS, "units"),
            span=span_of(node),
        )


def _interval_of(number: str, unit: str) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(number), unit=exp.Var(this=unit))


def _long_unit(text: str) -> str | None:
    unit = text.upper().removesuffix("S")
    return unit if unit in LONG_UNITS else None


def _interval_literal(cursor: Cursor) -> exp.Expr | None:
    return cursor._parse_interval() if cursor.at("INTERVAL") else None


def _read_quoted(cursor: Cursor) -> exp.Expr | None:
    token = cursor.here
    if token is None or token.token_type != TokenType.STRING:
        return None
    duration = interval(token.text)
    if duration is None:
        cursor.fail(f"'{token.text}' is not a duration", hint=USAGE)
    cursor._advance()
    return duration


def _read_short(cursor: Cursor) -> exp.Expr | None:
    """`1h30m`, which the tokenizer may have cut into pieces (`5s` is also Spark's SMALLINT 5)."""
    token = cursor.here
    if token is None or token.token_type not in (TokenType.NUMBER, TokenType.VAR):
        return None
    match = re.compile(r"[0-9][0-9a-zA-Z.]*").match(cursor.sql, token.start)
    duration = interval(match[0]) if match else None
    if match and duration:
        while (here := cursor.here) is not None and here.start < match.end():
            cursor._advance()
    return duration


def _read_number_and_unit(cursor: Cursor) -> exp.Expr | None:
    number, unit = cursor.here, cursor.peek(1)
    if number is None or unit is None or number.token_type != TokenType.NUMBER or not unit_of(unit.text):
        return None
    cursor._advance(2)
    return interval(f"{number.text} {unit.text}")
