"""FIRST and LAST over sessions. A row that goes over to another session is there anew, so the order of arrival inside
a session is that of its rows: FIRST(x) is the x of the row that came first."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tidegate.ir.specs import AggregateCall, AggregateSpec
from tidegate.kernels import aggregates
from tidegate.kernels.aggregates.function import Best
from tidegate.kernels.sessions.points import FIRST_AT, LAST_AT, MIX


def by_row(spec: AggregateSpec) -> AggregateSpec:
    """FIRST and LAST as MIN_BY and MAX_BY of when a row came."""
    return replace(spec, calls=tuple(_by_row(number, call) for number, call in enumerate(spec.calls)))


def with_arrivals(spec: AggregateSpec, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns that the calls of `by_row` need."""
    columns: list[pl.Expr] = []
    for number, call in enumerate(spec.calls):
        made = _by_row(number, call)
        if made is not call:
            counts = pl.col(call.filter) if call.filter else pl.lit(True)
            required = [pl.col(name).is_not_null() for name in aggregates.function(call).required]
            columns.append(pl.all_horizontal(counts, *required).alias(str(made.filter)))
            mixed = pl.col(aggregates.hash_name(call.args)) ^ (pl.col(made.args[1]) * MIX)
            columns.append(mixed.alias(aggregates.hash_name(made.args)))
    return rows.with_columns(columns)


def _by_row(number: int, call: AggregateCall) -> AggregateCall:
    function = aggregates.function(call)
    if not isinstance(function, Best) or not function.arrival:
        return call
    first = not function.order()[0][1]
    args = (call.args[0], FIRST_AT if first else LAST_AT)
    types = (call.arg_types[0], "bigint")
    name = "min_by" if first else "max_by"
    return replace(call, func=name, args=args, arg_types=types, filter=f"__counts{number}", options=())
