"""SELECT -> plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.aggregates import contains_aggregate, is_aggregate
from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.grouping import check_group, check_grouped, same_text
from tidegate.bind.items import Selected, aliases, at_place, limit_of, order_keys, order_of, ordinal, select_list
from tidegate.bind.joins import bind_joins
from tidegate.bind.joins.hint import early_fire, ignored
from tidegate.bind.ranking import rank
from tidegate.bind.scope import Field, Scope, resolve
from tidegate.bind.source import BindQuery, bind_from
from tidegate.bind.subqueries import lifted
from tidegate.bind.temporal import Where, where_of
from tidegate.bind.typing import describe
from tidegate.bind.unsupported import check_comparable, check_expression, check_select, make_storable, unsupported
from tidegate.bind.window_groups import filtered, group_rows
from tidegate.bind.windows import add_window
from tidegate.core.schema import Schema
from tidegate.plan import Distinct, Filter, Item, Node, Project, Scalar, TopN, Window, keep
from tidegate.sql import span_of
from tidegate.sql.window_spellings import normalise_windows
from tidegate.sql.windows import WindowCall


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


@dataclass(frozen=True)
class Parts:
    """The expressions of a SELECT above FROM and WHERE, over whatever the last stage made."""

    items: tuple[exp.Expr, ...]
    having: exp.Expr | None
    qualify: exp.Expr | None
    order: tuple[exp.Expr, ...]

    @property
    def trees(self) -> tuple[exp.Expr, ...]:
        optional = tuple(tree for tree in (self.having, self.qualify) if tree is not None)
        return (*self.items, *optional, *self.order)

    def replaced(self, trees: Sequence[exp.Expr]) -> Parts:
        """The same parts with the expressions of `trees`, which stand in the order of `self.trees`."""
        rest = list(trees)
        items = tuple(rest.pop(0) for _ in self.items)
        having = rest.pop(0) if self.having is not None else None
        qualify = rest.pop(0) if self.qualify is not None else None
        return Parts(items, having, qualify, tuple(rest))


def bind_select(select: exp.Select, context: Context, bind_query: BindQuery) -> Bound:
    """The plan of one SELECT, and its visible columns."""
    check_select(select)
    select = lifted(select, context, bind_query)
    select, window = _spelled(select)
    joined = bind_joins(select, context, bind_query) if select.args.get("joins") else None
    source, scope = (joined.source, joined.scope) if joined else bind_from(select, context, bind_query)
    if joined is None and (hint := early_fire(select, context)) is not None:
        ignored(hint, context, "it is for joins")
    if window is not None:
        source = add_window(source, scope, window, context)
        scope = Scope(scope.alias, source.fields, parts=scope.parts)
    where = joined.where if joined else where_of(select, scope)
    items = select_list(select.expressions, scope)
    keys = group_keys(select, scope, items)
    parts = Parts(
        tuple(item.tree for item in items),
        having(select, scope, items, keys or ()),
        condition(select, "qualify", scope, items),
        order_keys(select, scope, items),
    )
    grouped = keys is not None or any(contains_aggregate(tree) for tree in parts.trees) or parts.having is not None
    if grouped:
        check_grouped(keys or (), parts.trees)
    conditions = (*where.trees, *(tree for tree in (parts.having,) if tree is not None))
    described = describe(select, context, source, scope, conditions, (*parts.trees, *(keys or ())))

    plan, identity = _filtered(context, source.plan, where), source.hidden
    if isinstance(source.plan, Window):
        identity = (*identity, source.plan.window.start, source.plan.window.end)
    if grouped:
        result = group_rows(context, source.plan, where, keys or (), parts.trees)
        plan, parts, identity = result.plan, parts.replaced(result.trees), result.keys
    if parts.having is not None:
        plan = Filter(plan, Scalar(parts.having))
    plan, trees = rank(context.analyzer, plan, parts.trees)
    parts = parts.replaced(trees)
    if parts.qualify is not None:
        plan = Filter(plan, Scalar(parts.qualify))
    chosen, fields = _columns(plan, parts, described, items)
    if select.args.get("distinct") is not None:
        return Bound(_distinct(select, plan, chosen, parts), fields)
    unseen = _hidden(plan, chosen, identity) + _mark(plan, select)
    return Bound(_selected(select, context, plan, chosen + unseen, parts), fields)


def _spelled(select: exp.Select) -> tuple[exp.Select, WindowCall | None]:
    found = normalise_windows(select)
    return found.select, found.window


def _filtered(context: Context, plan: Node, where: Where) -> Node:
    return filtered(context, plan, where) if isinstance(plan, Window) else where.of(context.analyzer, plan)


def _columns(
    plan: Node, parts: Parts, described: Schema, items: Sequence[Selected]
) -> tuple[tuple[Item, ...], tuple[Field, ...]]:
    """The SELECT list as a projection, each column under a name of its own, and as what can be seen."""
    taken: set[str] = set()
    types = {column.name: column.type for column in plan.schema}
    chosen = tuple(
        Item(unique(column.name, taken), Scalar(tree), types.get(_plain(tree), column.type), column.nullable)
        for column, tree in zip(described, parts.items, strict=True)
    )
    fields = tuple(
        Field(column.name, item.name, item.type, item.nullable, written.span)
        for column, item, written in zip(described, chosen, items, strict=True)
    )
    return chosen, fields


def _plain(tree: exp.Expr) -> str:
    return tree.name if isinstance(tree, exp.Column) else ""


def _selected(select: exp.Select, context: Context, plan: Node, items: tuple[Item, ...], parts: Parts) -> Node:
    """The SELECT list, and the first rows by ORDER BY. What it orders by and does not select is dropped afterwards."""
    limit = limit_of(select)
    if limit is None:
        return Project(plan, items)
    selected = {same_text(item.expression.tree): item.name for item in items}
    extra: list[tuple[str, exp.Expr]] = []
    for key in parts.order:
        if same_text(key.this) not in selected:
            selected[same_text(key.this)] = f"__o{len(extra)}"
            extra.append((f"__o{len(extra)}", key.this))
    below = make_storable(Project(plan, items + typing.items(context.analyzer, plan, extra)))
    top = _top(below, parts, selected, limit)
    return Project(top, tuple(keep(top, item.name) for item in items)) if extra else top


def _distinct(select: exp.Select, plan: Node, items: tuple[Item, ...], parts: Parts) -> Node:
    """Each row of the SELECT list once, and the first of them by ORDER BY."""
    check_comparable((item.schema for item in items), "DISTINCT of", span_of(select))
    rows = Distinct(make_storable(Project(plan, items)))
    limit = limit_of(select)
    if limit is None:
        return rows
    selected = {same_text(item.expression.tree): item.name for item in items}
    for key in parts.order:
        if same_text(key.this) not in selected:
            hint = "order by columns of the SELECT list"
            raise unsupported("ORDER BY of what SELECT DISTINCT leaves out", span_of(key), hint)
    return _top(rows, parts, selected, limit)


def _top(rows: Node, parts: Parts, selected: dict[str, str], limit: tuple[int, int]) -> TopN:
    order = tuple(order_of(key, selected[same_text(key.this)]) for key in parts.order)
    return TopN(rows, (), order, *limit)


def _hidden(plan: Node, items: tuple[Item, ...], identity: tuple[str, ...]) -> tuple[Item, ...]:
    """Key columns that travel along unseen: those that the grouping made, or that were hidden below already.

    They are of use only if the whole key arrives.
    """
    key = plan.traits.key
    selected = {item.expression.column for item in items}
    missing = [name for name in key or () if name not in selected]
    if not missing or not set(missing) <= set(identity):
        return ()
    return tuple(keep(plan, name, f"__k{number}") for number, name in enumerate(missing))


def _mark(plan: Node, select: exp.Select) -> tuple[Item, ...]:
    """The column that ties corrections to what they correct; a LIMIT has other rows."""
    mark = plan.traits.mark
    return () if mark is None or limit_of(select) is not None else (keep(plan, mark),)
