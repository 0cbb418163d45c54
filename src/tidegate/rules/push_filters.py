"""Pushes filters down towards the inputs."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.ir.joins import ANTI, INNER, LEFT, RIGHT, SEMI
from tidegate.plan import (
    Aggregate,
    AnyJoin,
    Distinct,
    Filter,
    IntervalJoin,
    Join,
    Lookup,
    Node,
    Project,
    Rank,
    Scalar,
    SetOp,
    TopN,
    UnionAll,
    conjunction,
    conjuncts,
    rewrite_up,
)


def push_filters(plan: Node) -> Node:
    """
    Before:  Filter item = 'a' AND total > 10 <- Aggregate by item: sum(price) as total <- Scan
    After:   Filter total > 10 <- Aggregate by item: sum(price) as total <- Filter item = 'a' <- Scan

    Through projections that only rename, unions, set operations and DISTINCT; below a grouping or top-N where only
    its keys are tested.
    """
    return rewrite_up(plan, _push)


def _push(node: Node) -> Node:
    if not isinstance(node, Filter):
        return node
    below = node.input
    match below:
        case Filter():
            return _push(Filter(below.input, conjunction((*conjuncts(below.condition), *conjuncts(node.condition)))))
        case Project():
            return _split(node, lambda part: _renames(below, part), lambda part: _through(below, part))
        case UnionAll() | SetOp() | Distinct():
            return below.with_inputs(tuple(_push(Filter(side, _condition_of(node, side))) for side in below.inputs))
        case Join() | IntervalJoin() | Lookup():
            return _below_join(node, below)
        case Aggregate():
            return _split(node, lambda part: _tests_only(part, below.keys), lambda part: part)
        case Rank() | TopN():
            return _split(node, lambda part: _tests_only(part, below.partition), lambda part: part)
        case _:
            return node


def _below_join(node: Filter, join: AnyJoin) -> Node:
    """Push a condition on the columns of one side below the join, if that side is never padded."""
    sides, stay = list(join.inputs), list(conjuncts(node.condition))
    for number, kinds in enumerate(((INNER, LEFT, SEMI, ANTI), (INNER, RIGHT))):
        down = [part for part in stay if part.columns and part.columns <= set(sides[number].columns)]
        if down and join.kind in kinds and not (isinstance(join, Lookup) and number == 1):
            stay = [part for part in stay if part not in down]
            sides[number] = _push(Filter(sides[number], conjunction(tuple(down))))
    if len(stay) == len(conjuncts(node.condition)):
        return node
    lowered = join.with_inputs(tuple(sides))
    return Filter(lowered, conjunction(tuple(stay))) if stay else lowered


def _split(node: Filter, goes: Callable[[Scalar], bool], below: Callable[[Scalar], Scalar]) -> Node:
    """Push the parts of the condition for which `goes` is true; the others stay."""
    parts = conjuncts(node.condition)
    down = tuple(below(part) for part in parts if goes(part))
    stay = tuple(part for part in parts if not goes(part))
    if not down:
        return node
    lowered = node.input.with_inputs((_push(Filter(node.input.inputs[0], conjunction(down))),))
    return Filter(lowered, conjunction(stay)) if stay else lowered


def _renames(below: Project, part: Scalar) -> bool:
    return all(item.expression.cheap for item in below.items if item.name in part.columns)


def _through(below: Project, part: Scalar) -> Scalar:
    return part.substitute({item.name: item.expression for item in below.items})


def _condition_of(node: Filter, side: Node) -> Scalar:
    """The sides of a union have the same column names, so the condition holds for each as it stands."""
    assert set(node.condition.columns) <= set(side.columns)
    return node.condition


def _tests_only(part: Scalar, columns: tuple[str, ...]) -> bool:
    return bool(part.columns) and part.columns <= set(columns)
