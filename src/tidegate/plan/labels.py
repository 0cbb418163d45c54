"""Labels of plan nodes for EXPLAIN; text for aggregates, orders and windows, for plans and circuits alike."""

from __future__ import annotations

from functools import singledispatch

from tidegate.core.durations import render_length, render_micros
from tidegate.ir.joins import Comparison, KeyPair
from tidegate.ir.specs import AggregateCall, Order
from tidegate.ir.windows import WindowSpec
from tidegate.plan import gates, groups, joins, leaves, rows, time
from tidegate.plan.leaves import Node


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


@singledispatch
def label(node: Node) -> str:
    raise TypeError(f"{type(node).__name__} has no label")


@label.register
def _(node: leaves.Scan) -> str:
    return f"Scan {node.relation.kind} {node.relation.name}"


@label.register
def _(node: leaves.View) -> str:
    return f"View {node.name}"


@label.register
def _(node: rows.Project) -> str:
    return f"Project {', '.join(_item(item) for item in node.items)}"


@label.register
def _(node: rows.Filter) -> str:
    return f"Filter {node.condition.sql}"


@label.register
def _(node: groups.Aggregate) -> str:
    by = f" by {', '.join(node.keys)}" if node.keys else ""
    return f"Aggregate{by}: {', '.join(call_text(call) for call in node.calls)}"


@label.register
def _(node: groups.Distinct) -> str:
    return "Distinct"


@label.register
def _(node: groups.UnionAll) -> str:
    return "UnionAll"


@label.register
def _(node: groups.SetOp) -> str:
    return node.kind.capitalize() + (" all" if node.all else "")


@label.register
def _(node: groups.Rank) -> str:
    per = f" per {', '.join(node.partition)}" if node.partition else ""
    return f"Rank {node.function} as {node.out}{per} order by {order_text(node.order)}"


@label.register
def _(node: groups.TopN) -> str:
    return "TopN " + top_text(node.partition, node.order, node.limit, node.offset, node.function, node.rank)


@label.register
def _(node: time.Window) -> str:
    per = f" per {', '.join(node.partition)}" if node.partition else ""
    return f"Window {window_text(node.window)}{per}"


@label.register
def _(node: time.WindowAggregate) -> str:
    by = ", ".join((*node.keys, window_text(node.window)))
    late = f", {render_micros(node.lateness)} late" if node.lateness else ""
    calls = f": {', '.join(call_text(call) for call in node.calls)}" if node.calls else ""
    return f"Aggregate by {by}{late}{calls}"


@label.register
def _(node: gates.Gate) -> str:
    words = node.strategy.replace("_", " ")
    every = f" {render_micros(node.every)}" if node.every else ""
    until = " and ".join(
        f"{each.column} {'<=' if each.inclusive else '<'} {each.release.name}" for each in node.closing
    )
    return f"Gate {words}{every}" + (f" until {until}" if until else "")


@label.register
def _(node: time.TemporalFilter) -> str:
    bounds = [f"{node.since} <= now"] if node.since else []
    bounds += [f"now < {node.until}"] if node.until else []
    return f"Temporal filter {' and '.join(bounds)}"


@label.register
def _(node: time.IngressCheck) -> str:
    declared = [f"{column} >= {watermark.name}" for column, watermark in node.declared]
    return f"Ingress check {', '.join(declared + [code for _, code in node.checks])}"


@label.register
def _(node: time.Clocks) -> str:
    return f"Clock as {', '.join(node.names)}"


@label.register
def _(node: joins.Join) -> str:
    why = f" ({node.why})" if node.why else ""
    return f"Join {join_text(node.kind, node.keys, node.conditions)}{why}"


@label.register
def _(node: joins.IntervalJoin) -> str:
    left, right = node.times
    bounds = f"{right} - {left} in {render_micros(node.lower)}..{render_micros(node.upper)}"
    early = f", early after {render_micros(node.early.delay)} of {node.early.mode}" if node.early else ""
    return f"Interval join {join_text(node.kind, node.keys, node.conditions)}, {bounds}{early}"


@label.register
def _(node: joins.Lookup) -> str:
    return f"Lookup {join_text(node.kind, node.keys, node.conditions)}"


def _item(item: rows.Item) -> str:
    expression = item.expression
    return item.name if expression.column == item.name else f"{expression.sql} as {item.name}"
