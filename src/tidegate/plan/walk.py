"""Walking plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.plan.leaves import Node


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for below in node.inputs:
        yield from walk(below)


def rewrite_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Applies a rule to every node, inputs first. Nodes that do not change stay the same objects."""
    inputs = tuple(rewrite_up(below, rule) for below in node.inputs)
    changed = any(new is not old for new, old in zip(inputs, node.inputs, strict=True))
    return rule(node.with_inputs(inputs) if changed else node)
