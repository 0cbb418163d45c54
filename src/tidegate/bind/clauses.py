"""The clauses of a SELECT with their names resolved: its list, GROUP BY, HAVING, QUALIFY, ORDER BY and LIMIT.

Stars are expanded, and later items may use the aliases of earlier ones. ORDER BY with a LIMIT is a maintained top-N;
without one it has no meaning, since a view has no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.aggregates import contains_aggregate, is_aggregate
from tidegate.bind.expressions import canonical_text
from tidegate.bind.scope import Fallback, Scope, resolve
from tidegate.bind.unsupported import check_comparable, check_expression, unsupported
from tidegate.errors import Span, make
from tidegate.ir.specs import Order
from tidegate.plan import Node
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of
from tidegate.sql.groupings import several_groupings


@dataclass(frozen=True)
class Selected:
    """One column of the SELECT list: its alias (None: Spark names it), its expression over the plan, its span."""

    alias: str | None
    tree: exp.Expr
    span: Span | None


def select_list(expressions: Sequence[exp.Expr], scope: Scope) -> tuple[Selected, ...]:
    """All columns of a SELECT list, stars expanded."""
    items: list[Selected] = []
    for node in expressions:
        star = _star(node)
        if star is not None:
            fields = scope.star(node, *star)
            items += [Selected(field.name, column_tree(field.column), span_of(node)) for field in fields]
        else:
            items.append(_item(node, scope, items))
    return tuple(items)


def aliases(items: Sequence[Selected]) -> Fallback:
    """A fallback that resolves the aliases of a SELECT list."""

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
    name = node.args["alias"] if isinstance(node, exp.Alias) else node
    return Selected(alias, resolve(tree, scope, aliases(earlier)), span_of(name))


def _star(node: exp.Expr) -> tuple[str | None, list[exp.Expr]] | None:
    """(qualifier, excluded names) of `*` and `t.*`, None for anything else."""
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return None
    qualifier = node.table if isinstance(node, exp.Column) else None
    return qualifier or None, list(star.args.get("except_") or ())


def group_keys(select: exp.Select, scope: Scope, items: Sequence[Selected]) -> tuple[exp.Expr, ...] | None:
    """The expressions of GROUP BY: positions, columns of FROM, aliases, or with ALL every item that has no aggregate.
    None without GROUP BY."""
    clause = select.args.get("group")
    if clause is None:
        return None
    if (error := several_groupings(clause)) is not None:
        raise error
    if clause.args.get("all"):
        return tuple(item.tree for item in items if not contains_aggregate(item.tree))
    return tuple(_group_key(node, scope, items) for node in clause.expressions)


def _group_key(node: exp.Expr, scope: Scope, items: Sequence[Selected]) -> exp.Expr:
    check_expression(node)
    position = _ordinal(node)
    return _item_at(items, position, node) if position is not None else resolve(node, scope, aliases(items))


def having(select: exp.Select, scope: Scope, items: Sequence[Selected], keys: Sequence[exp.Expr]) -> exp.Expr | None:
    """The condition of HAVING. Outside of aggregates, a name is a key of the grouping, else an alias."""
    clause = select.args.get("having")
    if clause is None:
        return None
    check_expression(clause.this)
    key_texts = {canonical_text(key) for key in keys}
    find_alias = aliases(items)

    def resolve_name(node: exp.Column) -> exp.Expr:
        column = resolve(node, scope, find_alias)
        alias = find_alias(node) if not node.table else None
        return column if alias is None or canonical_text(column) in key_texts else alias

    return _resolve_with_aggregates(clause.this, scope, resolve_name)


def qualify(select: exp.Select, scope: Scope, items: Sequence[Selected]) -> exp.Expr | None:
    """The condition of QUALIFY. A name is a column of FROM, else an alias."""
    clause = select.args.get("qualify")
    if clause is None:
        return None
    check_expression(clause.this)
    return resolve(clause.this, scope, aliases(items) if items else None)


def order_keys(query: exp.Query, scope: Scope, items: Sequence[Selected]) -> tuple[exp.Ordered, ...]:
    """The ORDER BY expressions: positions, aliases of the SELECT list, or columns of FROM."""
    clause = query.args.get("order")
    return tuple(_order_key(each, scope, items) for each in (clause.expressions if clause else ()))


def _order_key(node: exp.Ordered, scope: Scope, items: Sequence[Selected]) -> exp.Ordered:
    check_expression(node.this)
    position = _ordinal(node.this)
    tree = _item_at(items, position, node) if position is not None else _resolve_key(node.this, scope, items)
    result = node.copy()
    result.set("this", tree.unnest())
    return result


def _resolve_key(tree: exp.Expr, scope: Scope, items: Sequence[Selected]) -> exp.Expr:
    """Resolve names in ORDER BY: aliases take precedence over columns of FROM."""
    find_alias = aliases(items)

    def resolve_name(node: exp.Column) -> exp.Expr:
        alias = find_alias(node) if not node.table else None
        return resolve(node, scope) if alias is None else alias

    return _resolve_with_aggregates(tree, scope, resolve_name)


def _resolve_with_aggregates(tree: exp.Expr, scope: Scope, resolve_name: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """Resolve names with `resolve_name`; inside of aggregates they are always columns of FROM."""

    def swap(node: exp.Expr) -> exp.Expr:
        if is_aggregate(node):
            return resolve(node, scope)
        return resolve_name(node) if isinstance(node, exp.Column) else node

    return tree.transform(swap)


def order_over(plan: Node, keys: Sequence[exp.Expr], names: Sequence[str]) -> tuple[Order, ...]:
    """The order of a top-N over `plan`, whose columns of these names hold the values of `keys`."""
    columns = {column.name: column for column in plan.schema}
    for key, name in zip(keys, names, strict=True):
        check_comparable([columns[name]], "ORDER BY", span_of(key), "order by")
    return tuple(
        Order(name, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
        for key, name in zip(keys, names, strict=True)
    )


def _ordinal(node: exp.Expr) -> int | None:
    """The number in GROUP BY 1 or ORDER BY 1; None for other expressions."""
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None


def _item_at(items: Sequence[Selected], position: int, node: exp.Expr) -> exp.Expr:
    if not 1 <= position <= len(items):
        message = f"there is no column number {position}, the SELECT list has {len(items)}"
        raise make("UNKNOWN_COLUMN", message=message, span=span_of(node))
    return items[position - 1].tree.copy()


def limit_of(query: exp.Query) -> tuple[int, int] | None:
    """(limit, offset) of a query; None if it has no LIMIT."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    clause = limit or offset
    if clause is None:
        return None
    if query.args.get("order") is None:
        hint = "write ORDER BY ... LIMIT, so that there is one answer"
        raise unsupported("LIMIT without ORDER BY", span_of(clause), hint)
    if limit is None:
        raise unsupported("OFFSET without LIMIT", span_of(clause), "write ORDER BY ... LIMIT n OFFSET m")
    return _count(limit, "LIMIT"), 0 if offset is None else _count(offset, "OFFSET")


def _count(node: exp.Expr, word: str) -> int:
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    if not isinstance(value, exp.Literal) or not value.is_int:
        raise unsupported(f"{word} with anything but a number", span_of(node), f"write {word} 10")
    return int(value.name)
