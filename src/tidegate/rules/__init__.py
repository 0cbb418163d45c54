"""Logical plan -> logical plan with the same rows, cheaper to maintain. One file per rule."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.plan import Node
from tidegate.rules.bound_ranks import bound_ranks
from tidegate.rules.drop_distinct import drop_distinct
from tidegate.rules.drop_projections import drop_projections
from tidegate.rules.merge_projections import merge_projections
from tidegate.rules.prune_columns import prune_columns
from tidegate.rules.push_filters import push_filters

RULES: tuple[Callable[[Node], Node], ...] = (
    push_filters,
    bound_ranks,
    merge_projections,
    prune_columns,
    drop_projections,
    drop_distinct,
)

MAX_ROUNDS = 20


def rewrite(plan: Node) -> Node:
    """Apply all rules, in order, until nothing changes."""
    for _ in range(MAX_ROUNDS):
        before = plan
        for rule in RULES:
            plan = rule(plan)
        if plan == before:
            return plan
    raise RuntimeError(f"rules do not come to an end after {MAX_ROUNDS} rounds")


__all__ = ["RULES", "rewrite"]
