"""Rows that an op may reject, with all columns of the relation that it reads, so that they can be recorded whole."""

from __future__ import annotations

from dataclasses import replace

from tidegate import plan as logical
from tidegate.plan import Node

Row = tuple[tuple[str, str], ...]
CARRIED = "__r"


def with_row(node: Node) -> tuple[Node, str, Row] | None:
    """The plan with all columns of the one relation it reads, the name of that relation, and its columns in the plan as
    (name, column). None if rows come from several relations or are computed on the way."""
    match node:
        case logical.Scan():
            return node, node.relation.name, _own_columns(node)
        case logical.View():
            return node, node.name, _own_columns(node)
        case logical.Filter() | logical.Window() | logical.Clocks() | logical.IngressCheck():
            below = with_row(node.inputs[0])
            return None if below is None else (node.with_inputs((below[0],)), *below[1:])
        case logical.Project():
            return _carry_through(node)
    return None


def port_columns(node: Node) -> tuple[str, ...]:
    """The columns that users named."""
    return tuple(name for name in node.columns if not name.startswith("__")) or node.columns


def _own_columns(node: Node) -> Row:
    return tuple((name, name) for name in port_columns(node))


def _carry_through(node: logical.Project) -> tuple[Node, str, Row] | None:
    carrying = with_row(node.input)
    if carrying is None:
        return None
    below, relation, row = carrying
    renames, items, where = node.renames, list(node.items), []
    for name, column in row:
        if column not in renames:
            items.append(logical.keep(below, column, f"{CARRIED}{len(items)}"))
        where.append((name, renames.get(column, items[-1].name)))
    return replace(node, input=below, items=tuple(items)), relation, tuple(where)
