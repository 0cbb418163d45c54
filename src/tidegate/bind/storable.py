"""What an operator can keep, compare and hash."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from tidegate.bind.unsupported import refused
from tidegate.core.schema import Column
from tidegate.errors import Span
from tidegate.plan import Item, Node, Project, Scalar, kept
from tidegate.plan.scalar import column_tree

VOID = re.compile(r"\bvoid\b")
UNKEPT = re.compile(r"\b(interval(?! day| hour| minute| second)|variant|geometry|geography|object)\b")


def storable(plan: Node) -> Node:
    """The plan with types that rows can have: what is nothing but NULL (Spark's void) becomes a string."""
    for column in plan.schema:
        check_type(column, None)
    if not any(VOID.search(column.type) for column in plan.schema):
        return plan
    return Project(plan, tuple(_item(plan, column) for column in plan.schema))


def check_type(column: Column, span: Span | None) -> None:
    """Refuses types that have no place in a row of ours."""
    if UNKEPT.search(column.type):
        hint = f"write CAST({column.name} AS STRING), or leave it out"
        raise refused(f"column {column.name} of type {column.type.upper()}", span, hint)


def check_comparable(columns: Iterable[Column], what: str, span: Span | None) -> None:
    """Refuses maps where rows are told apart: they have no order and no hash."""
    for column in columns:
        if "map<" in column.type:
            hint = f"compare map_entries({column.name}) instead" if not column.name.startswith("__") else None
            raise refused(f"{what} a MAP", span, hint)


def _item(plan: Node, column: Column) -> Item:
    if not VOID.search(column.type):
        return kept(plan, column.name)
    kind = VOID.sub("string", column.type)
    return Item(column.name, Scalar(cast(column_tree(column.name), kind)), kind)


def cast(tree: exp.Expr, kind: str) -> exp.Expr:
    """CAST(tree AS kind)."""
    return exp.Cast(this=tree, to=exp.DataType.build(kind, dialect="spark"))
