"""EXPLAIN: a plan as text, with its traits on every line, and as a tree for programs."""

from __future__ import annotations

from typing import Any

from tidegate.plan.labels import label
from tidegate.plan.leaves import Node
from tidegate.traits import Traits
from tidegate.traits.state import NONE


class Explanation(str):
    """The text; `.tree` is the same as nested dictionaries."""

    tree: dict[str, Any]

    @staticmethod
    def of(tree: dict[str, Any]) -> Explanation:
        text = Explanation("\n".join(render_lines(tree)))
        text.tree = tree
        return text


def explain_plan(plan: Node) -> Explanation:
    """A logical plan, as bound or as rewritten."""
    return Explanation.of(plan_tree(plan))


def plan_tree(node: Node) -> dict[str, Any]:
    """The node with its columns, traits and inputs."""
    traits = node.traits
    return {
        "node": label(node),
        "columns": [[column.name, column.type] for column in node.schema],
        "traits": traits_of(traits),
        "inputs": [plan_tree(below) for below in node.inputs],
    }


def traits_of(traits: Traits) -> dict[str, Any]:
    """Traits as EXPLAIN prints them; state and watermarks only if there are any."""
    properties: dict[str, Any] = {"kind": traits.kind, "key": None if traits.key is None else list(traits.key)}
    if traits.watermarks:
        properties["watermarks"] = [column for column, _ in traits.watermarks]
    if traits.lost:
        properties["no watermark"] = [f"{column}: {why}" for column, why in traits.lost]
    if traits.state != NONE:
        properties["state"] = traits.state
    return properties


def render_lines(tree: dict[str, Any], depth: int = 0) -> list[str]:
    """`Filter ...  [kind=append, key=none]`, inputs indented below."""
    own = "  " * depth + tree["node"]
    traits = ", ".join(f"{name}={_value(value)}" for name, value in tree.get("traits", {}).items())
    text = f"{own}  [{traits}]" if traits else own
    return [text, *(line for below in tree["inputs"] for line in render_lines(below, depth + 1))]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"({', '.join(value)})" if isinstance(value, list) else str(value)
