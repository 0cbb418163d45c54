"""Drops columns that nothing reads."""

from __future__ import annotations

from dataclasses import replace

from tidegate.plan import (
    Aggregate,
    AnyJoin,
    Clocks,
    Filter,
    Gate,
    IntervalJoin,
    Join,
    Lookup,
    Node,
    Project,
    TopN,
    UnionAll,
    WindowAggregate,
    keep,
)
from tidegate.plan.joins import compared_columns


def prune_columns(plan: Node) -> Node:
    """
    Before:  Project item <- Aggregate by item: sum(price) as s, max(ts) as m <- Project item, price, ts <- Scan
    After:   Project item <- Aggregate by item: sum(price) as s <- Project item, price <- Scan

    DISTINCT, EXCEPT, INTERSECT and top-N mean whole rows: below them everything is used.
    """
    return _prune(plan, frozenset(plan.columns))


def _prune(node: Node, used: frozenset[str]) -> Node:
    match node:
        case Project():
            return _project(node, used)
        case Filter():
            return _over(node, used | node.condition.columns)
        case Aggregate():
            return _aggregate(node, used)
        case WindowAggregate():
            return _windows(node, used)
        case Gate():
            return _gate(node, used)
        case Clocks():
            below = _prune(node.input, used - set(node.names))
            names = tuple(name for name in node.names if name in used)
            return Clocks(below, names) if names else below
        case Join() | IntervalJoin() | Lookup():
            return _join(node, used)
        case UnionAll():
            names = tuple(name for name in node.columns if name in used) or node.columns[:1]
            return UnionAll(tuple(_only(_prune(side, frozenset(names)), names) for side in node.sides))
        case TopN() if node.rank is not None and node.rank not in used:
            return _over(replace(node, rank=None), frozenset(node.input.columns))
        case _:
            return node.with_inputs(tuple(_prune(below, frozenset(below.columns)) for below in node.inputs))


def _project(node: Project, used: frozenset[str]) -> Node:
    items = tuple(item for item in node.items if item.name in used) or node.items[:1]
    needed = frozenset(name for item in items for name in item.expression.columns)
    return Project(_prune(node.input, needed), items)


def _aggregate(node: Aggregate, used: frozenset[str]) -> Node:
    calls = tuple(call for call in node.calls if call.out in used) or node.calls[:1]
    arguments = {name for call in calls for name in (*call.args, call.filter) if name is not None}
    needed = frozenset((*node.keys, *arguments))
    return replace(node, input=_prune(node.input, needed), calls=calls)


def _windows(node: WindowAggregate, used: frozenset[str]) -> Node:
    calls = tuple(call for call in node.calls if call.out in used)
    arguments = {name for call in calls for name in (*call.args, call.filter) if name is not None}
    needed = frozenset((*node.keys, node.window.time, *arguments))
    return replace(node, input=_prune(node.input, needed), calls=calls)


def _join(node: AnyJoin, used: frozenset[str]) -> Node:
    """Both sides need the columns of the result and those that the join compares."""
    outputs = tuple(name for name in node.outputs if name in used) or node.outputs[:1]
    sides = []
    for side, compared in zip(node.inputs, compared_columns(node), strict=True):
        needed = tuple(name for name in side.columns if name in {*outputs, *compared} | _key(node, side))
        sides.append(_only(_prune(side, frozenset(needed)), needed))
    return replace(node, left=sides[0], right=sides[1], outputs=outputs)


def _key(node: AnyJoin, side: Node) -> set[str]:
    """A lookup needs the key of its table."""
    return set(side.traits.key or ()) if isinstance(node, Lookup) and side is node.right else set()


def _gate(node: Gate, used: frozenset[str]) -> Node:
    """Below a gate, only aggregates can drop columns: other rows are stored whole."""
    if not isinstance(node.input, Aggregate | WindowAggregate):
        return _over(node, frozenset(node.input.columns))
    return _over(node, used | {each.column for each in node.closing})


def _over(node: Node, needed: frozenset[str]) -> Node:
    return node.with_inputs((_prune(node.inputs[0], needed),))


def _only(node: Node, columns: tuple[str, ...]) -> Node:
    """Exactly these columns, in this order."""
    return node if node.columns == columns else Project(node, tuple(keep(node, name) for name in columns))
