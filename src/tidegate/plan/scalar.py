"""Expressions of a plan: Spark SQL over the bare, back-quoted columns of the rows below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.sql import render


@dataclass(frozen=True)
class Scalar:
    """A Spark SQL expression. `sql` is its text and its identity; `tree` is for rewriting, and is never changed."""

    tree: exp.Expr = field(compare=False, repr=False)
    sql: str = field(init=False)
    columns: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sql", render(self.tree))
        object.__setattr__(self, "columns", frozenset(each.name for each in self.tree.find_all(exp.Column)))

    @property
    def column(self) -> str | None:
        """The column's name, if the expression is nothing but a column."""
        return self.tree.name if isinstance(self.tree, exp.Column) else None

    @property
    def cheap(self) -> bool:
        """True if evaluating it twice costs nothing worth mentioning."""
        return isinstance(self.tree, exp.Column | exp.Literal | exp.Null | exp.Boolean)

    def substitute(self, replacements: Mapping[str, Scalar]) -> Scalar:
        """The same expression with columns replaced by expressions."""
        if not self.columns & set(replacements):
            return self
        if self.column is not None:
            return replacements[self.column]

        def replace(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.name in replacements:
                return _parenthesize(replacements[node.name].tree)
            return node

        return Scalar(self.tree.transform(replace))


def column(name: str) -> Scalar:
    """The expression that is a column."""
    return Scalar(column_tree(name))


def column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    """The parts of a condition that all must hold."""
    tree = condition.tree.unnest()
    if not isinstance(tree, exp.And):
        return (Scalar(tree),)
    return (*conjuncts(Scalar(tree.left)), *conjuncts(Scalar(tree.right)))


def conjunction(parts: tuple[Scalar, ...]) -> Scalar:
    """One condition that holds when all parts do."""
    if len(parts) == 1:
        return parts[0]
    tree = _parenthesize(parts[0].tree)
    for part in parts[1:]:
        tree = exp.And(this=tree, expression=_parenthesize(part.tree))
    return Scalar(tree)


_TIGHT = (exp.Column, exp.Literal, exp.Paren, exp.Boolean, exp.Null, exp.Bracket)


def _parenthesize(tree: exp.Expr) -> exp.Expr:
    """A copy that keeps its meaning inside another expression. For sqlglot some operators are functions too."""
    tight = isinstance(tree, _TIGHT) or (isinstance(tree, exp.Func) and not isinstance(tree, exp.Binary))
    return tree.copy() if tight else exp.Paren(this=tree.copy())
