"""The names in WHERE, GROUP BY, HAVING and QUALIFY. Each looks them up in its own order, as Spark does."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind.aggregates import contains_aggregate, is_aggregate
from tidegate.bind.grouping import check_group, same_text
from tidegate.bind.items import Selected, aliases
from tidegate.bind.ordering import at_place, ordinal
from tidegate.bind.scope import Scope, resolve
from tidegate.bind.unsupported import check_expression


def condition(select: exp.Select, clause: str, scope: Scope, items: Sequence[Selected]) -> exp.Expr | None:
    """WHERE or QUALIFY: columns of FROM, then (if there are items) aliases of the SELECT list."""
    found = select.args.get(clause)
    if found is None:
        return None
    check_expression(found.this)
    return resolve(found.this, scope, aliases(items) if items else None)


def having(select: exp.Select, scope: Scope, items: Sequence[Selected], keys: Sequence[exp.Expr]) -> exp.Expr | None:
    """HAVING: inside of aggregates columns of FROM; outside keys of the grouping, then aliases."""
    found = select.args.get("having")
    if found is None:
        return None
    check_expression(found.this)
    grouped = {same_text(key) for key in keys}
    named = aliases(items)

    def prefer_alias(node: exp.Expr) -> exp.Expr:
        if is_aggregate(node):
            return resolve(node, scope)
        if not isinstance(node, exp.Column):
            return node
        column = resolve(node, scope, named)
        alias = named(node) if not node.table else None
        return column if alias is None or same_text(column) in grouped else alias

    tree: exp.Expr = found.this.transform(prefer_alias)
    return tree


def group_keys(select: exp.Select, scope: Scope, items: Sequence[Selected]) -> tuple[exp.Expr, ...] | None:
    """GROUP BY: positions, columns of FROM, aliases, or ALL that is not aggregated. None: there is no GROUP BY."""
    clause = select.args.get("group")
    if clause is None:
        return None
    check_group(clause)
    if clause.args.get("all"):
        return tuple(item.tree for item in items if not contains_aggregate(item.tree))
    return tuple(_group_key(node, scope, items) for node in clause.expressions)


def _group_key(node: exp.Expr, scope: Scope, items: Sequence[Selected]) -> exp.Expr:
    check_expression(node)
    place = ordinal(node)
    return at_place(items, place, node) if place is not None else resolve(node, scope, aliases(items))
