"""Drops projections that change nothing."""

from __future__ import annotations

from tidegate.plan import Node, Project, rewrite_up


def drop_projections(plan: Node) -> Node:
    """
    Before:  Project item, price <- Scan (item, price)
    After:   Scan (item, price)
    """
    return rewrite_up(plan, lambda node: node.inputs[0] if _changes_nothing(node) else node)


def _changes_nothing(node: Node) -> bool:
    return (
        isinstance(node, Project)
        and node.columns == node.input.columns
        and all(item.expression.column == item.name for item in node.items)
    )
