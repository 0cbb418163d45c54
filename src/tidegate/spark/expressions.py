"""Spark SQL text of a circuit, moved into the struct columns of a wide frame."""

from __future__ import annotations

from sqlglot import exp, parse_one

from tidegate.sql import Tidegate, render
from tidegate.sql.guards import guard_calls


def quoted(name: str) -> str:
    """A name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a Spark string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def inside(sql: str, prefix: str | None) -> str:
    """The expression as Spark runs it, with every column read from the struct column `prefix`, if there is one.

    >>> inside("`price` * 2", "in:bids")
    '`in:bids`.`price` * 2'
    """
    if prefix is None and "element_at" not in sql.lower():
        return sql
    tree = guard_calls(parse_one(f"SELECT {sql}", read=Tidegate).expressions[0])
    return render(tree if prefix is None else tree.transform(lambda node: _move(node, prefix)))


def _move(node: exp.Expr, prefix: str) -> exp.Expr:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return node
    root: exp.Expr = exp.column(exp.to_identifier(prefix, quoted=True))
    for part in node.parts:
        root = exp.Dot(this=root, expression=exp.to_identifier(part.name, quoted=True))
    return root
