"""Drops DISTINCT over rows that are unique anyway."""

from __future__ import annotations

from tidegate.plan import Distinct, Node, rewrite_up


def drop_distinct(plan: Node) -> Node:
    """
    Before:  Distinct <- Aggregate by item: sum(price)
    After:   Aggregate by item: sum(price)

    The rows of a relation with a key, the empty one included, are all different.
    """
    return rewrite_up(plan, _drop)


def _drop(node: Node) -> Node:
    return node.input if isinstance(node, Distinct) and node.input.traits.key is not None else node
