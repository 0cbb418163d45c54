"""Nothing is computed or carried that nobody uses."""

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
from tidegate.plan.joins import met_by


def prune_columns(plan: Node) -> Node:
    """
    Before:  Project item <- Aggregate by item: sum(price) as s, max(ts) as m <- Project item, price, ts <- Scan
    After:   Project item <- Aggregate by item: sum(price) as s <- Project item, price <- Scan

    DISTINCT, EXCEPT, INTERSECT and top-N mean whole rows: below them everything is used.
    """
    return _pruned(plan, frozenset(plan.columns))


def _pruned(node: Node, used: frozenset[str]) -> Node:
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
            below = _pruned(node.input, used - set(node.names))
            names = tuple(name for name in node.names if name in used)
            return Clocks(below, names) if names else below
        case Join() | IntervalJoin() | Lookup():
            return _join(node, used)
        case UnionAll():
            wanted = tuple(name for name in node.columns if name in used) or node.columns[:1]
            return UnionAll(tuple(_only(_pruned(side, frozenset(wanted)), wanted) for side in node.sides))
        case TopN() if node.rank is not None and node.rank not in used:
            return _over(replace(node, rank=None), frozenset(node.input.columns))
        case _:
            return node.with_inputs(tuple(_pruned(below, frozenset(below.columns)) for below in node.inputs))


def _project(node: Project, used: frozenset[str]) -> Node:
    items = tuple(item for item in node.items if item.name in used) or node.items[:1]
    needed = frozenset(name for item in items for name in item.expression.columns)
    return Project(_pruned(node.input, needed), items)


def _aggregate(node: Aggregate, used: frozenset[str]) -> Node:
    calls = tuple(call for call in node.calls if call.out in used) or node.calls[:1]
    arguments = {name for call in calls for name in (*call.args, call.filter) if name is not None}
    needed = frozenset((*node.keys, *arguments))
    return replace(node, input=_pruned(node.input, needed), calls=calls)


def _windows(node: WindowAggregate, used: frozenset[str]) -> Node:
    calls = tuple(call for call in node.calls if call.out in used)
    arguments = {name for call in calls for name in (*call.args, call.filter) if name is not None}
    needed = frozenset((*node.keys, node.window.time, *arguments))
    return replace(node, input=_pruned(node.input, needed), calls=calls)


def _join(node: AnyJoin, used: frozenset[str]) -> Node:
    """Both sides carry what comes out and what they meet by."""
    taken = tuple(name for name in node.taken if name in used) or node.taken[:1]
    sides = []
    for side, met in zip(node.inputs, met_by(node), strict=True):
        needed = tuple(name for name in side.columns if name in {*taken, *met} | _key(node, side))
        sides.append(_only(_pruned(side, frozenset(needed)), needed))
    return replace(node, left=sides[0], right=sides[1], taken=taken)


def _key(node: AnyJoin, side: Node) -> set[str]:
    """A looked-up row is known by its key."""
    return set(side.traits.key or ()) if isinstance(node, Lookup) and side is node.right else set()


def _gate(node: Gate, used: frozenset[str]) -> Node:
    """An aggregate at a gate need not compute what nobody uses; other rows wait as they are."""
    if not isinstance(node.input, Aggregate | WindowAggregate):
        return _over(node, frozenset(node.input.columns))
    return _over(node, used | {each.column for each in node.closing})


def _over(node: Node, needed: frozenset[str]) -> Node:
    return node.with_inputs((_pruned(node.inputs[0], needed),))


def _only(node: Node, columns: tuple[str, ...]) -> Node:
    """Exactly these columns, in this order."""
    return node if node.columns == columns else Project(node, tuple(keep(node, name) for name in columns))
