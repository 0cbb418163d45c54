"""Values as numbers on one axis per column, so that they can be compared and shifted: times are microseconds since
1970."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.core.types import Type
from tidegate.sql.durations import length

INFINITE = math.inf
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY = 86_400_000_000
TIMES = ("timestamp", "timestamp_ntz", "date")

Number = int | float | Decimal
Amount = CalendarInterval | Number


class Unknown(Exception):
    """The oracle cannot compute an answer; the text is the reason."""


def number(value: Any, kind: Type) -> Number | None:
    """A value as a number; None for NULL."""
    if value is None:
        return None
    match kind.name:
        case "timestamp" | "timestamp_ntz" | "date":
            return micros(value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    raise Unknown(f"a {kind} is not on any axis")


def micros(time: date) -> int:
    """Microseconds since 1970; a date is its midnight, and a timestamp without a zone is in UTC."""
    if not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def value(axis: Number, kind: Type) -> Any:
    """The value of type `kind` at a number; the inverse of `number`."""
    match kind.name:
        case "timestamp":
            return EPOCH + int(axis) * MICROSECOND
        case "timestamp_ntz":
            return (EPOCH + int(axis) * MICROSECOND).replace(tzinfo=None)
        case "date":
            return EPOCH.date() + timedelta(days=int(axis) // DAY)
        case "decimal":
            return Decimal(str(axis)).quantize(Decimal(1).scaleb(-kind.digits[1]))
        case "float" | "double":
            return float(axis)
    return int(axis)


def amount(tree: exp.Expr | None) -> Amount:
    """The duration or number that an annotation subtracts."""
    if tree is None:
        return CalendarInterval()
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return Decimal(tree.name) if "." in tree.name else int(tree.name)
    if isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal):
        inner = amount(tree.this)
        return inner if isinstance(inner, CalendarInterval) else -inner
    return duration(tree)


def duration(tree: exp.Expr) -> CalendarInterval:
    """The duration that an expression denotes."""
    interval = length(tree)
    if interval is None:
        raise Unknown(f"{tree.sql()} is no duration that the oracle knows")
    return interval


def minus(axis: Number, subtracted: Amount) -> Number:
    """A number less an amount; months are calendar months."""
    if not isinstance(subtracted, CalendarInterval):
        both_exact = isinstance(axis, int | Decimal) and isinstance(subtracted, int | Decimal)
        return axis - subtracted if both_exact else float(axis) - float(subtracted)  # type: ignore[operator]
    return plus(axis, CalendarInterval(-subtracted.micros, -subtracted.months))


def plus(axis: Number, added: CalendarInterval) -> Number:
    """A time shifted by a duration."""
    if not added.months:
        return axis if axis == INFINITE else int(axis) + added.micros
    return add_months(int(axis), added.months) + added.micros


def add_months(time: int, months: int) -> int:
    """Adds months as Spark does: the day of the month stays, or becomes the last one of a shorter month."""
    moment = EPOCH + time * MICROSECOND
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = (datetime(year + month // 11, (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
    return micros(moment.replace(year=year, month=month + 1, day=min(moment.day, last)))
