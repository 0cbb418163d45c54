"""Operators whose state grows as long as rows arrive, and what would bound it, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from tidegate.plan.gates import Gate
from tidegate.plan.groups import Aggregate, Distinct, SetOp, TopN
from tidegate.plan.joins import Join
from tidegate.plan.leaves import Node, Scan, View
from tidegate.plan.time import Window, WindowAggregate
from tidegate.traits.watermark import settling


def unbounded(plan: Node) -> Iterator[tuple[Node, str]]:
    """The operators of a plan whose state grows without bound, each with what would bound it. What a maintained view
    below stores is its own; what is computed from tables alone grows only with these."""
    closes = isinstance(plan, Gate) and plan.every is None and isinstance(plan.input, Aggregate)
    why = bound_of(plan)
    if why is not None and reads_source(plan):
        yield plan, why
    for below in plan.inputs:
        yield from (found for found in unbounded(below) if not (closes and found[0] is below))


def reads_source(plan: Node) -> bool:
    """True if some rows come from a source, which has no end."""
    if isinstance(plan, Scan):
        return plan.relation.kind == "source"
    below = (plan.plan,) if isinstance(plan, View) else plan.inputs
    return any(reads_source(each) for each in below)


@singledispatch
def bound_of(node: Node) -> str | None:
    """What would bound the state of an operator; None if it is bounded."""
    return None


@bound_of.register
def _(node: Aggregate) -> str | None:
    if not node.keys or _settles(node.input, node.keys):
        return None
    if any(node.input.traits.watermark(key) for key in node.keys):
        return "EMIT ON WINDOW CLOSE, or LATENESS on the time: late rows may change any group"
    return "a window, or another column with a watermark, in GROUP BY"


@bound_of.register
def _(node: Distinct) -> str | None:
    return (
        None if _settles(node.input, node.columns) else "a column with LATENESS, or of a closed window, in the SELECT"
    )


@bound_of.register
def _(node: SetOp) -> str | None:
    pairs = zip(node.left.columns, node.right.columns, strict=True)
    if any(_settles(node.left, (one,)) and _settles(node.right, (other,)) for one, other in pairs):
        return None
    return "a column with LATENESS, or of a closed window, on both sides"


@bound_of.register
def _(node: TopN) -> str | None:
    if not node.partition:
        return None if node.input.traits.append_only else "an input that is never retracted"
    if _settles(node.input, node.partition):
        return None
    return "window_start, or another column of a closed window, in PARTITION BY"


@bound_of.register
def _(node: Join) -> str | None:
    bounds = node.bounds
    if bounds is not None and None not in bounds.watermarks:
        return None
    return "an equality of window columns, or bounds on the time between both sides, in ON"


@bound_of.register
def _(node: WindowAggregate) -> str | None:
    return None if node.watermark is not None else f"a watermark: WATERMARK FOR {node.window.time}"


@bound_of.register
def _(node: Window) -> str | None:
    return "GROUP BY the session" if node.window.kind == "session" else None


def _settles(below: Node, columns: tuple[str, ...]) -> bool:
    """True if rows of one of the columns do not change once its watermark has passed them."""
    return bool(settling(below.traits.watermarks, columns))
