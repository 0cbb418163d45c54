"""Naive aggregate functions: each computes its answer from the list of all argument tuples of a group."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from tidegate.core.types import decimal_parts
from tidegate.ir.specs import AggregateCall

Row = tuple[Any, ...]
Arrival = tuple[tuple[int, int], tuple[int, int]]
"""Step and position of the first and of the last arrival of a value."""

_DIGITS = Context(prec=80, rounding=ROUND_HALF_UP)


def answer(call: AggregateCall, rows: list[Row], arrivals: Mapping[Row, Arrival]) -> Any:
    """The result of a call over the argument tuples of a group's rows."""
    if call.func in ("first", "last"):
        return _by_arrival(call, arrivals)
    if call.func in ("min_by", "max_by"):
        return _by_other_column(call, rows)
    full = [row for row in rows if None not in row]
    if call.distinct or call.func == "approx_count_distinct":
        full = list(dict.fromkeys(full))
    if call.func in ("count", "approx_count_distinct"):
        return len(full) if call.args else len(rows)
    return _ANSWERS[call.func](call, full)


def ordering(value: Any) -> tuple[Any, ...]:
    """A sort key in Spark's ascending order: NULL, then numbers, NaN above them; lists and structs by their parts."""
    if value is None:
        return (0,)
    if value == "NaN" or (isinstance(value, float) and math.isnan(value)):
        return (2,)
    return (1, tuple(ordering(item) for item in value)) if isinstance(value, tuple) else (1, value)


def _by_arrival(call: AggregateCall, arrivals: Mapping[Row, Arrival]) -> Any:
    ignore = dict(call.options).get("ignore_nulls") == "true"
    last = call.func == "last"
    candidates = [
        (at[int(last)], ordering(row[0]), row[0]) for row, at in arrivals.items() if row[0] is not None or not ignore
    ]
    chosen = (max if last else min)(candidates, key=lambda item: item[:2], default=None)
    return chosen[2] if chosen else None


def _by_other_column(call: AggregateCall, rows: list[Row]) -> Any:
    rows = [row for row in rows if row[1] is not None]
    if not rows:
        return None
    by = (max if call.func == "max_by" else min)(ordering(row[1]) for row in rows)
    return min((row[0] for row in rows if ordering(row[1]) == by), key=ordering)


def _sum(call: AggregateCall, rows: list[Row]) -> Any:
    if not rows:
        return None
    values = [row[0] for row in rows]
    parts = decimal_parts(call.type)
    if parts:
        total = functools.reduce(_DIGITS.add, values)
        return total if total.scaleb(parts[1], _DIGITS).copy_abs() < 10 ** parts[0] else None
    if call.type == "double":
        return _exact(values)
    return (sum(values) + (1 << 63)) % (1 << 64) - (1 << 63)


def _exact(values: list[Any]) -> float:
    """The sum of doubles, rounded once."""
    special = {math.nan if value == "NaN" else float(value) for value in values if value == "NaN" or math.isinf(value)}
    if special:
        return sum(special)
    total = sum((Fraction(value) for value in values), Fraction())
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _avg(call: AggregateCall, rows: list[Row]) -> Any:
    if not rows:
        return None
    parts = decimal_parts(call.type)
    if parts:
        total = functools.reduce(_DIGITS.add, (row[0] for row in rows))
        return _DIGITS.divide(total, Decimal(len(rows))).quantize(Decimal(1).scaleb(-parts[1]), context=_DIGITS)
    values = [row[0] for row in rows]
    return (_exact(values) if call.arg_types[0] in ("float", "double") else float(sum(values))) / len(rows)


def _co_moment(call: AggregateCall, rows: list[Row], left: int, right: int, sample: bool) -> float | None:
    count = len(rows) - 1 if sample else len(rows)
    if count <= 0:
        return None
    if any(value == "NaN" or math.isinf(value) for row in rows for value in row):
        return math.nan
    x, y = ([Fraction(row[side]) for row in rows] for side in (left, right))
    products = sum((a * b for a, b in zip(x, y, strict=True)), Fraction())
    return float((products - sum(x) * sum(y) / len(rows)) / count)


def _moment(sample: bool, root: bool) -> Callable[[AggregateCall, list[Row]], Any]:
    def result(call: AggregateCall, rows: list[Row]) -> Any:
        value = _co_moment(call, rows, 0, 0, sample)
        return math.sqrt(value) if root and value is not None else value

    return result


def _covariance(sample: bool) -> Callable[[AggregateCall, list[Row]], Any]:
    return lambda call, rows: _co_moment(call, rows, 0, 1, sample)


def _corr(call: AggregateCall, rows: list[Row]) -> Any:
    both, x, y = (_co_moment(call, rows, *sides, False) for sides in ((0, 1), (0, 0), (1, 1)))
    divisor = math.sqrt(x or 0) * math.sqrt(y or 0)
    return both / divisor if both is not None and divisor and len(rows) > 1 else None


def _extreme(choose: Callable[..., Any]) -> Callable[[AggregateCall, list[Row]], Any]:
    return lambda call, rows: choose((row[0] for row in rows), key=ordering, default=None)


def _sorted(rows: list[Row]) -> list[Any]:
    return sorted((row[0] for row in rows), key=ordering)


def _percentile(call: AggregateCall, rows: list[Row]) -> Any:
    values = [float(value) for value in _sorted(rows)]
    if not values:
        return None
    position = float(dict(call.options).get("percentage", "0.5")) * (len(values) - 1)
    low, high = values[math.floor(position)], values[math.ceil(position)]
    share = position - math.floor(position)
    return low if low == high else (1 - share) * low + share * high


def _mode(call: AggregateCall, rows: list[Row]) -> Any:
    counts = Counter(row[0] for row in rows)
    most = max(counts.values(), default=0)
    return min((value for value, count in counts.items() if count == most), key=ordering, default=None)


def _fold(operation: Callable[[Any, Any], Any]) -> Callable[[AggregateCall, list[Row]], Any]:
    return lambda call, rows: functools.reduce(operation, _sorted(rows)) if rows else None


_ANSWERS: dict[str, Callable[[AggregateCall, list[Row]], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "variance": _moment(sample=True, root=False),
    "var_pop": _moment(sample=False, root=False),
    "stddev": _moment(sample=True, root=True),
    "stddev_pop": _moment(sample=False, root=True),
    "covar_samp": _covariance(sample=True),
    "covar_pop": _covariance(sample=False),
    "corr": _corr,
    "count_if": lambda call, rows: sum(row[0] for row in rows),
    "bool_and": lambda call, rows: all(row[0] for row in rows) if rows else None,
    "bool_or": lambda call, rows: any(row[0] for row in rows) if rows else None,
    "min": _extreme(min),
    "max": _extreme(max),
    "array_agg": lambda call, rows: tuple(_sorted(rows)),
    "collect_set": lambda call, rows: tuple(_sorted(list(dict.fromkeys(rows)))),
    "median": _percentile,
    "percentile": _percentile,
    "mode": _mode,
    "listagg": lambda call, rows: dict(call.options).get("delimiter", "").join(_sorted(rows)) if rows else None,
    "bit_and": _fold(operator.and_),
    "bit_or": _fold(operator.or_),
    "bit_xor": _fold(operator.xor),
}
