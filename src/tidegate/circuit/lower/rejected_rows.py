"""The rows that an op may refuse, whole: what is below it, with all columns of the relation that it reads."""

from __future__ import annotations

from dataclasses import replace

from tidegate import plan as logical
from tidegate.plan import Node

Row = tuple[tuple[str, str], ...]
CARRIED = "__r"


def with_row(node: Node) -> tuple[Node, str, Row] | None:
    """The plan with the columns of the one relation it reads carried along, that relation's name, and where its columns
    are, as (name, column). None if rows come from several relations or are made anew on the way."""
    match node:
        case logical.Scan():
            return node, node.relation.name, _same(node)
        case logical.View():
            return node, node.name, _same(node)
        case logical.Filter() | logical.Window() | logical.Clocks() | logical.IngressCheck():
            found = with_row(node.inputs[0])
            return None if found is None else (node.with_inputs((found[0],)), *found[1:])
        case logical.Project():
            return _projected(node)
    return None


def port_columns(node: Node) -> tuple[str, ...]:
    """The columns that users know."""
    return tuple(name for name in node.columns if not name.startswith("__")) or node.columns


def _same(node: Node) -> Row:
    return tuple((name, name) for name in port_columns(node))


def _projected(node: logical.Project) -> tuple[Node, str, Row] | None:
    found = with_row(node.input)
    if found is None:
        return None
    below, relation, row = found
    kept, items, where = node.kept, list(node.items), []
    for name, column in row:
        if column not in kept:
            items.append(logical.keep(below, column, f"{CARRIED}{len(items)}"))
        where.append((name, kept.get(column, items[-1].name)))
    return replace(node, input=below, items=tuple(items)), relation, tuple(where)
