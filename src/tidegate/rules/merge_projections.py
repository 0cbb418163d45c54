"""Merges two projections in a row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from tidegate.plan import Node, Project, rewrite_up


def merge_projections(plan: Node) -> Node:
    """
    Before:  Project a + 1 as b <- Project price * 2 as a <- Scan
    After:   Project (price * 2) + 1 as b <- Scan

    Not if an expression that is not cheap would be evaluated more than once.
    """
    return rewrite_up(plan, _merge)


def _merge(node: Node) -> Node:
    if not isinstance(node, Project) or not isinstance(node.input, Project):
        return node
    below = node.input
    used = Counter(each.name for item in node.items for each in item.expression.tree.find_all(exp.Column))
    if any(used[item.name] > 1 and not item.expression.cheap for item in below.items):
        return node
    inner = {item.name: item.expression for item in below.items}
    items = tuple(replace(item, expression=item.expression.substitute(inner)) for item in node.items)
    return Project(below.input, items)
