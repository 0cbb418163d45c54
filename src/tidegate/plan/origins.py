"""Where columns come from, and what a bound of one column of a row says about the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.ir.windows import WindowSpec
from tidegate.plan.groups import Aggregate
from tidegate.plan.leaves import Node, Unary, View
from tidegate.plan.rows import Project
from tidegate.plan.time import Window, WindowAggregate, edge_watermarks
from tidegate.sql import call, render
from tidegate.sql.durations import length
from tidegate.traits import monotone
from tidegate.traits.watermark import Expression, Watermark, WindowEdge, shift


@dataclass(frozen=True)
class Edge:
    """The start or end of the windows of a time."""

    window: WindowSpec
    which: str


@dataclass(frozen=True)
class Place:
    """A column of a node, and how it is computed from the next place below: by an expression, as the edge of a window,
    or (None) not at all."""

    node: Node
    column: str
    how: exp.Expr | Edge | None = None

    @property
    def type(self) -> str:
        return next(column.type for column in self.node.schema if column.name == self.column)


def trace(node: Node, column: str) -> tuple[Place, ...]:
    """The places that a column comes from, its own first, as far as each is computed from one column alone."""
    below = _below(node, column)
    if below is None:
        return (Place(node, column),)
    input, source, how = below
    return (Place(node, column, how), *trace(input, source))


def carried(bound: Watermark, known: Sequence[Place], path: Sequence[Place]) -> Watermark | None:
    """What a column is not below in rows of which another column is not below `bound`: both come from the places given.
    None if nothing follows."""
    current: Watermark | None = bound
    for number, place in enumerate(known):
        if current is None:
            return None
        meeting = next((at for at, each in enumerate(path) if _same(each, place)), None)
        if meeting is not None:
            return _computed(current, path[: meeting + 1])
        current = None if number + 1 == len(known) else _inverse(place.how, current, known[number + 1].type)
    return None


def as_type(type: str, watermark: Watermark) -> Watermark:
    """The watermark as a value of another type, not above it."""
    return watermark if watermark.type == type else Expression(type, f"CAST(`x` AS {type})", (("x", watermark),))


def _below(node: Node, column: str) -> tuple[Node, str, exp.Expr | Edge | None] | None:
    match node:
        case View():
            return node.plan, column, None
        case Project():
            expression = next(item.expression for item in node.items if item.name == column)
            if len(expression.columns) != 1:
                return None
            return node.input, next(iter(expression.columns)), None if expression.column else expression.tree
        case Window() | WindowAggregate() if column in (node.window.start, node.window.end):
            return node.input, node.window.time, Edge(node.window, "start" if column == node.window.start else "end")
        case Aggregate() | WindowAggregate() if column not in node.keys:
            return None
        case Unary() if column in node.input.columns:
            return node.input, column, None
    return None


def _same(one: Place, other: Place) -> bool:
    return one.node is other.node and one.column == other.column


def _computed(bound: Watermark, path: Sequence[Place]) -> Watermark | None:
    """The bound of the first place, from that of the last."""
    if len(path) == 1:
        return bound
    place, below = path[0], _computed(bound, path[1:])
    if below is None or place.how is None:
        return below
    if isinstance(place.how, Edge):
        edges = dict(edge_watermarks(below, place.how.window))
        return edges.get(place.how.window.start if place.how.which == "start" else place.how.window.end)
    return monotone.watermark_of(place.how, place.type, {path[1].column: below})[0]


def _inverse(how: exp.Expr | Edge | None, bound: Watermark, type: str) -> Watermark | None:
    """What the argument (of a type) is not below where the value is not below `bound`."""
    if how is None:
        return bound
    if isinstance(how, Edge):
        start = bound if how.which == "start" else _start_of(how.window, bound)
        return None if start is None else as_type(type, start)
    if _shifts(how) and isinstance(bound, Expression) and bound.sql == render(how):
        return bound.over[0][1]
    argument = _argument(how, exp.column("x", quoted=True), type)
    if argument is None:
        return None
    if not isinstance(argument, exp.Add | exp.Sub):
        return as_type(type, bound)
    return Expression(type, render(argument), (("x", bound),))


def _start_of(window: WindowSpec, end: Watermark) -> Watermark | None:
    """The start of the first window that ends at a watermark or later. A session may have begun at any time."""
    if window.kind == "session":
        return None
    if isinstance(end, WindowEdge) and end.window == window and end.edge == "end":
        return replace(end, edge="start")
    open_before = shift(end, 1)
    return None if open_before is None else WindowEdge(end.type, open_before, window, "start")


_FLOORS = ("date", "to_date", "date_trunc", "trunc", "floor")
"""Functions with a value that is not above that of their time or number."""
_INEXACT = ("float", "double")


def _argument(tree: exp.Expr, value: exp.Expr, type: str) -> exp.Expr | None:
    """The lowest column (of a type) of which the expression is not below `value`; None if that is unknown."""
    tree = tree.unnest()
    match tree:
        case exp.Column():
            return value
        case exp.Add() if type not in _INEXACT and _amount(tree.right):
            return _argument(tree.left, exp.Sub(this=value, expression=tree.right.copy()), type)
        case exp.Sub() if type not in _INEXACT and _amount(tree.right):
            return _argument(tree.left, exp.Add(this=value, expression=tree.right.copy()), type)
        case exp.Cast() | exp.TryCast() if render(tree.to).lower() == "date":
            return _argument(tree.this, exp.cast(value, type), type)
    function = call(tree)
    if function is None or function.name not in _FLOORS:
        return None
    arguments = [each for each in function.args if each.find(exp.Column)]
    return _argument(arguments[0], exp.cast(value, type), type) if len(arguments) == 1 else None


def _shifts(tree: exp.Expr) -> bool:
    """True for a column plus or minus a constant: larger arguments have larger values."""
    tree = tree.unnest()
    return isinstance(tree, exp.Column) or (
        isinstance(tree, exp.Add | exp.Sub) and _amount(tree.right) and _shifts(tree.left)
    )


def _amount(tree: exp.Expr) -> bool:
    """True for a constant that can be subtracted again exactly."""
    if isinstance(tree.unnest(), exp.Interval):
        duration = length(tree)
        return duration is not None and not duration.months
    return isinstance(tree.unnest(), exp.Literal) and tree.unnest().is_int
