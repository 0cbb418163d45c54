"""Aggregates, orders and places in words, for plans and circuits alike."""

from __future__ import annotations

from tidegate.core.durations import render_length, render_micros
from tidegate.ir.joins import Comparison, KeyPair
from tidegate.ir.specs import AggregateCall, Order
from tidegate.ir.windows import WindowSpec


def quoted(name: str) -> str:
    """A column's name as Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def call_text(call: AggregateCall) -> str:
    """`sum(DISTINCT price) FILTER (__f0) as __a0`."""
    inside = ("DISTINCT " if call.distinct else "") + (", ".join(call.args) or "*")
    options = "".join(f" {name}={value}" for name, value in call.options)
    where = f" filter {call.filter}" if call.filter else ""
    return f"{call.func}({inside}){options}{where} as {call.out}"


def top_text(
    partition: tuple[str, ...], order: tuple[Order, ...], limit: int, offset: int, function: str, rank: str | None
) -> str:
    """`1..3 per item order by price desc, row_number as n`."""
    per = f" per {', '.join(partition)}" if partition else ""
    named = f", {function} as {rank}" if rank else "" if function == "row_number" else f", {function}"
    return f"{offset + 1}..{offset + limit}{per} order by {order_text(order)}{named}"


def join_text(kind: str, keys: tuple[KeyPair, ...], conditions: tuple[Comparison, ...]) -> str:
    """`left on id = order_id and price < limit`."""
    parts = [f"{pair.left} {'<=>' if pair.null_safe else '='} {pair.right}" for pair in keys]
    parts += [f"{each.left} {each.op} {each.right}" for each in conditions]
    return f"{kind} on {' and '.join(parts)}" if parts else kind


def order_text(order: tuple[Order, ...]) -> str:
    return ", ".join(_order(each) for each in order)


def _order(order: Order) -> str:
    direction = " desc" if order.descending else ""
    usual = not order.descending
    nulls = "" if order.nulls_first == usual else f" nulls {'first' if order.nulls_first else 'last'}"
    return f"{order.column}{direction}{nulls}"


def window_text(window: WindowSpec) -> str:
    """`tumble(ts, 10s)`, `hop(ts, every 5s, 10s)`."""
    steps = f"every {render_length(window.slide)}, " if window.slide else ""
    offset = f" + {render_micros(window.offset)}" if window.offset else ""
    return f"{window.kind}({window.time}, {steps}{render_length(window.size)}{offset})"
