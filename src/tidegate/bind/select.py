"""SELECT -> plan. One line per stage, in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.aggregates import contains_aggregate
from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.grouping import check_group, group, same_text, unsupported_in_where
from tidegate.bind.items import Selected, aliases, select_list
from tidegate.bind.ordering import at_place, limit_of, order_keys, order_of, ordinal
from tidegate.bind.ranking import rank
from tidegate.bind.scope import Field, Scope, resolve
from tidegate.bind.source import BindQuery, bind_from
from tidegate.bind.storable import storable
from tidegate.bind.unsupported import check_expression, check_select, refused
from tidegate.catalog.schema import Schema
from tidegate.errors import Error
from tidegate.plan import Distinct, Filter, Item, Node, Project, Scalar, TopN, kept
from tidegate.sql import render, span_of

RELATION = "__relation"


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
    source, scope = bind_from(select, context, bind_query)
    where = _condition(select, "where", scope, ())
    if where is not None:
        unsupported_in_where(where)
    items = select_list(select.expressions, scope)
    order = order_keys(select, scope, items)
    parts = Parts(
        tuple(item.tree for item in items),
        _condition(select, "having", scope, items),
        _condition(select, "qualify", scope, items),
        order,
    )
    keys = _group_keys(select, scope, items)
    described = _described(select, context, source, scope, (*parts.trees, *(keys or ()), *([where] if where else [])))

    plan = source.plan if where is None else Filter(source.plan, Scalar(where))
    grouped = keys is not None or any(contains_aggregate(tree) for tree in parts.trees) or parts.having is not None
    identity = source.hidden
    if grouped:
        result = group(context.analyzer, storable(plan), keys or (), parts.trees)
        plan, parts, identity = result.plan, parts.replaced(result.trees), result.keys
    if parts.having is not None:
        plan = Filter(plan, Scalar(parts.having))
    plan, trees = rank(context.analyzer, plan, parts.trees)
    parts = parts.replaced(trees)
    if parts.qualify is not None:
        plan = Filter(plan, Scalar(parts.qualify))
    return _projected(select, context, plan, parts, described, identity)


def _projected(
    select: exp.Select, context: Context, plan: Node, parts: Parts, described: Schema, identity: tuple[str, ...]
) -> Bound:
    """SELECT list, DISTINCT, ORDER BY and LIMIT over the rows of the stages before."""
    limit = limit_of(select)
    taken: set[str] = set()
    items = tuple(
        Item(unique(column.name, taken), Scalar(tree), column.type, column.nullable)
        for column, tree in zip(described, parts.items, strict=True)
    )
    fields = tuple(
        Field(column.name, item.name, item.type, item.nullable) for column, item in zip(described, items, strict=True)
    )
    if select.args.get("distinct") is not None:
        plan = Distinct(storable(Project(plan, items)))
        return Bound(plan if limit is None else _top_of_distinct(plan, items, parts, limit), fields)
    items += _hidden(plan, items, identity)
    if limit is None:
        return Bound(Project(plan, items), fields)
    return Bound(_top(context, plan, items, parts, limit), fields)


def _top(context: Context, plan: Node, items: tuple[Item, ...], parts: Parts, limit: tuple[int, int]) -> Node:
    """The first rows by ORDER BY. What it orders by and does not select is dropped afterwards."""
    selected = {same_text(item.expression.tree): item.name for item in items}
    extra: list[tuple[str, exp.Expr]] = []
    for key in parts.order:
        if same_text(key.this) not in selected:
            selected[same_text(key.this)] = f"__o{len(extra)}"
            extra.append((f"__o{len(extra)}", key.this))
    below = storable(Project(plan, items + typing.items(context.analyzer, plan, extra)))
    orders = tuple(order_of(key, selected[same_text(key.this)]) for key in parts.order)
    top = TopN(below, (), orders, *limit)
    return Project(top, tuple(kept(top, item.name) for item in items)) if extra else top


def _top_of_distinct(plan: Node, items: tuple[Item, ...], parts: Parts, limit: tuple[int, int]) -> Node:
    selected = {same_text(item.expression.tree): item.name for item in items}
    for key in parts.order:
        if same_text(key.this) not in selected:
            hint = "order by columns of the SELECT list"
            raise refused("ORDER BY of what SELECT DISTINCT leaves out", span_of(key), hint)
    orders = tuple(order_of(key, selected[same_text(key.this)]) for key in parts.order)
    return TopN(plan, (), orders, *limit)


def _hidden(plan: Node, items: tuple[Item, ...], identity: tuple[str, ...]) -> tuple[Item, ...]:
    """Key columns that travel along unseen: those that the grouping made, or that were hidden below already.

    They are of use only if the whole key arrives.
    """
    key = plan.traits.key
    selected = {item.expression.column for item in items}
    missing = [name for name in key or () if name not in selected]
    if not missing or not set(missing) <= set(identity):
        return ()
    return tuple(kept(plan, name, f"__k{number}") for number, name in enumerate(missing))


def _condition(select: exp.Select, clause: str, scope: Scope, items: Sequence[Selected]) -> exp.Expr | None:
    found = select.args.get(clause)
    if found is None:
        return None
    check_expression(found.this)
    return resolve(found.this, scope, aliases(items) if items else None)


def _group_keys(select: exp.Select, scope: Scope, items: Sequence[Selected]) -> tuple[exp.Expr, ...] | None:
    """The expressions of GROUP BY: positions, columns, aliases, or ALL that is not aggregated. None: no GROUP BY."""
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


def _described(select: exp.Select, context: Context, source: Bound, scope: Scope, trees: Sequence[exp.Expr]) -> Schema:
    """Spark's names and types for the SELECT list, from the SELECT as written over a relation like its FROM."""
    core = select.copy()
    for clause in ("with_", "qualify", "order", "limit", "offset"):
        core.set(clause, None)
    table = exp.Table(this=exp.to_identifier(RELATION, quoted=True))
    if scope.alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(scope.alias, quoted=True)))
    core.set("from_", exp.From(this=table))
    try:
        return context.analyzer.query(render(core), {RELATION: scope.schema})
    except Error as error:
        found = typing.located(context.analyzer, source.plan.schema, trees, error)
        if found.span is None:
            found.span = span_of(select)
        raise found from None
