"""Values on the axis of their column, so that they can be compared and moved: all times are microseconds since 1970."""

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
    """The model has no answer, and this is why."""


def number(value: Any, kind: Type) -> Number | None:
    """A value as a number; NULL has none."""
    if value is None:
        return None
    match kind.name:
        case "timestamp" | "timestamp_ntz":
            moment: datetime = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (moment - EPOCH) // MICROSECOND
        case "date":
            return (date(value.year, value.month, value.day) - EPOCH.date()).days * DAY
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    raise Unknown(f"a {kind} is not on any axis")


def value(found: Number, kind: Type) -> Any:
    """The value of a type that stands at a number."""
    match kind.name:
        case "timestamp":
            return EPOCH + int(found) * MICROSECOND
        case "timestamp_ntz":
            return (EPOCH + int(found) * MICROSECOND).replace(tzinfo=None)
        case "date":
            return EPOCH.date() + timedelta(days=int(found) // DAY)
        case "decimal":
            return Decimal(str(found)).quantize(Decimal(1).scaleb(-kind.digits[1]))
        case "float" | "double":
            return float(found)
    return int(found)


def amount(tree: exp.Expr | None) -> Amount:
    """What an annotation subtracts: a length of time or a number."""
    if tree is None:
        return CalendarInterval()
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return Decimal(tree.name) if "." in tree.name else int(tree.name)
    if isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal):
        inner = amount(tree.this)
        return inner if isinstance(inner, CalendarInterval) else -inner
    found = length(tree)
    if found is None:
        raise Unknown(f"{tree.sql()} is no amount that the model knows")
    return found


def minus(found: Number, taken: Amount) -> Number:
    """A number that much lower; months go by the calendar."""
    if not isinstance(taken, CalendarInterval):
        both_exact = isinstance(found, int | Decimal) and isinstance(taken, int | Decimal)
        return found - taken if both_exact else float(found) - float(taken)  # type: ignore[operator]
    return plus(found, CalendarInterval(-taken.micros, -taken.months))


def plus(found: Number, added: CalendarInterval) -> Number:
    """A moment that much later."""
    if not added.months:
        return found if found == INFINITE else int(found) + added.micros
    return add_months(int(found), added.months) + added.micros


def add_months(micros: int, months: int) -> int:
    """As Spark does: the day of the month stays, or is the last one."""
    moment = EPOCH + micros * MICROSECOND
    place = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(place, 12)
    last = (datetime(year + month // 11, (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
    return (moment.replace(year=year, month=month + 1, day=min(moment.day, last)) - EPOCH) // MICROSECOND
