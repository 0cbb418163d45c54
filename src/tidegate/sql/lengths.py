"""How long a duration is, however it is written."""

from __future__ import annotations

import re

from sqlglot import exp

from tidegate.core.durations import CalendarInterval, parse_length

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
            return _combined(CalendarInterval(), length(node.this), -1)
        case exp.Add():
            return _combined(length(node.left), length(node.right), 1)
        case exp.Sub():
            return _combined(length(node.left), length(node.right), -1)
        case exp.Interval():
            return _interval(node)
        case exp.Literal() if node.is_string:
            return parse_length(node.name)
        case exp.Column() if len(node.parts) == 1:
            return parse_length(node.name)
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.this in _SUFFIXES:
            return parse_length(node.this.name + _SUFFIXES[node.to.this])
    return None


def _combined(left: CalendarInterval | None, right: CalendarInterval | None, sign: int) -> CalendarInterval | None:
    if left is None or right is None:
        return None
    return CalendarInterval(left.micros + sign * right.micros, left.months + sign * right.months)


def _interval(node: exp.Interval) -> CalendarInterval | None:
    value = node.this.sql(dialect="spark").strip("'") if node.this is not None else ""
    unit = node.args.get("unit")
    if unit is None:
        return parse_length(value)
    if isinstance(unit, exp.IntervalSpan):
        return _spanned(value, unit.this.name.lower(), unit.expression.name.lower())
    return parse_length(f"{value} {unit.name}")


def _spanned(value: str, first: str, last: str) -> CalendarInterval | None:
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
