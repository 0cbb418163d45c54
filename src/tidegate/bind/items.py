"""The SELECT list and ORDER BY ... LIMIT.

Stars are expanded, names resolved, and earlier aliases put in where later items use them. ORDER BY with a LIMIT is a
maintained top-N; without one the order of a view means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.aggregates import is_aggregate
from tidegate.bind.scope import Fallback, Scope, resolve
from tidegate.bind.unsupported import check_expression, unsupported
from tidegate.errors import Span, make
from tidegate.ir.specs import Order
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


def order_keys(query: exp.Query, scope: Scope, items: Sequence[Selected]) -> tuple[exp.Ordered, ...]:
    """The ORDER BY expressions: positions, aliases of the SELECT list, or columns of FROM."""
    clause = query.args.get("order")
    return tuple(_order_key(each, scope, items) for each in (clause.expressions if clause else ()))


def _order_key(node: exp.Ordered, scope: Scope, items: Sequence[Selected]) -> exp.Ordered:
    check_expression(node.this)
    place = ordinal(node.this)
    tree = at_place(items, place, node) if place is not None else _resolve_key(node.this, scope, items)
    result = node.copy()
    result.set("this", tree.unnest())
    return result


def _resolve_key(tree: exp.Expr, scope: Scope, items: Sequence[Selected]) -> exp.Expr:
    """Aliases come before columns of FROM, but not inside of aggregates."""
    named = aliases(items)

    def prefer_alias(node: exp.Expr) -> exp.Expr:
        if is_aggregate(node):
            return resolve(node, scope)
        if not isinstance(node, exp.Column):
            return node
        alias = named(node) if not node.table else None
        return resolve(node, scope) if alias is None else alias

    return tree.transform(prefer_alias)


def order_of(key: exp.Expr, column: str) -> Order:
    """How a top-N sorts by a column that holds the key's value."""
    return Order(column, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))


def ordinal(node: exp.Expr) -> int | None:
    """`1` in GROUP BY 1 or ORDER BY 1."""
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None


def at_place(items: Sequence[Selected], place: int, node: exp.Expr) -> exp.Expr:
    if not 1 <= place <= len(items):
        message = f"there is no column number {place}, the SELECT list has {len(items)}"
        raise make("UNKNOWN_COLUMN", message=message, span=span_of(node))
    return items[place - 1].tree.copy()


def limit_of(query: exp.Query) -> tuple[int, int] | None:
    """(limit, offset) of a query; None if it has no LIMIT."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    written = limit or offset
    if written is None:
        return None
    if query.args.get("order") is None:
        hint = "write ORDER BY ... LIMIT, so that there is one answer"
        raise unsupported("LIMIT without ORDER BY", span_of(written), hint)
    if limit is None:
        raise unsupported("OFFSET without LIMIT", span_of(written), "write ORDER BY ... LIMIT n OFFSET m")
    return _count(limit, "LIMIT"), 0 if offset is None else _count(offset, "OFFSET")


def _count(node: exp.Expr, word: str) -> int:
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if not isinstance(value, exp.Literal) or not value.is_int:
        raise unsupported(f"{word} with anything but a number", span_of(node), f"write {word} 10")
    return int(value.name)
