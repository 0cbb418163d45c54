"""What an operator can keep: every column has a type that Arrow knows."""

from __future__ import annotations

from sqlglot import exp

from tidegate.plan import Item, Node, Project, Scalar, kept
from tidegate.plan.scalar import column_tree


def storable(plan: Node) -> Node:
    """The plan with columns that are nothing but NULL (Spark's void) as strings."""
    if all(column.type != "void" for column in plan.schema):
        return plan
    return Project(plan, tuple(_item(plan, column.name, column.type) for column in plan.schema))


def _item(plan: Node, name: str, kind: str) -> Item:
    if kind != "void":
        return kept(plan, name)
    return Item(name, Scalar(cast(column_tree(name), "string")), "string")


def cast(tree: exp.Expr, kind: str) -> exp.Expr:
    """CAST(tree AS kind)."""
    return exp.Cast(this=tree, to=exp.DataType.build(kind, dialect="spark"))
