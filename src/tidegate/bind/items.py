"""The SELECT list: stars expanded, names resolved, earlier aliases put in where later items use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.scope import Fallback, Scope, resolve
from tidegate.bind.unsupported import check_expression
from tidegate.errors import Span
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of


@dataclass(frozen=True)
class Selected:
    """One column of the SELECT list: its alias (None: Spark names it), its expression over the plan, its place."""

    alias: str | None
    tree: exp.Expr
    span: Span | None


def select_list(expressions: Sequence[exp.Expr], scope: Scope) -> tuple[Selected, ...]:
    """All columns of a SELECT list."""
    found: list[Selected] = []
    for node in expressions:
        star = _star(node)
        if star is not None:
            fields = scope.star(node, *star)
            found += [Selected(field.name, column_tree(field.column), span_of(node)) for field in fields]
        else:
            found.append(_item(node, scope, found))
    return tuple(found)


def aliases(items: Sequence[Selected]) -> Fallback:
    """Knows the aliases of a SELECT list, for names that FROM does not have."""

    def find(node: exp.Column) -> exp.Expr | None:
        parts = node.parts
        folded = parts[0].name.casefold()
        item = next((each for each in items if each.alias is not None and each.alias.casefold() == folded), None)
        if item is None:
            return None
        tree: exp.Expr = item.tree.copy()
        if not isinstance(tree, exp.Column):
            tree = exp.Paren(this=tree)
        for part in parts[1:]:
            tree = exp.Bracket(this=tree, expressions=[exp.Literal.string(part.name)])
        return tree

    return find


def _item(node: exp.Expr, scope: Scope, earlier: Sequence[Selected]) -> Selected:
    check_expression(node)
    alias = node.alias if isinstance(node, exp.Alias) else None
    tree = node.this if isinstance(node, exp.Alias) else node
    place = node.args["alias"] if isinstance(node, exp.Alias) else node
    return Selected(alias, resolve(tree, scope, aliases(earlier)), span_of(place))


def _star(node: exp.Expr) -> tuple[str | None, list[exp.Expr]] | None:
    """(qualifier, excluded names) of `*` and `t.*`, None for anything else."""
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return None
    qualifier = node.table if isinstance(node, exp.Column) else None
    return qualifier or None, list(star.args.get("except_") or ())
