"""SELECT -> plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.aggregates import contains_aggregate
from tidegate.bind.clauses import Selected, group_keys, having, limit_of, order_keys, order_over, qualify, select_list
from tidegate.bind.context import Analyzer, Bound, Context, unique
from tidegate.bind.expressions import ComputedColumns, canonical_text, describe, typed_items
from tidegate.bind.grouping import check_grouped
from tidegate.bind.joins import bind_joins
from tidegate.bind.joins.hint import early_fire, warn_ignored
from tidegate.bind.scope import Field, Scope
from tidegate.bind.source import BindQuery, bind_from
from tidegate.bind.subqueries import rewrite_subqueries
from tidegate.bind.temporal import Where, bind_where
from tidegate.bind.unsupported import check_comparable, check_select, make_storable, unsupported
from tidegate.bind.windows import add_window, filter_windows, group_rows
from tidegate.core.schema import Schema
from tidegate.plan import Distinct, Filter, Item, Node, Project, Rank, Scalar, TopN, Window, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import call, span_of
from tidegate.sql.window_spellings import normalise_windows


@dataclass(frozen=True)
class Parts:
    """The expressions of a SELECT above FROM and WHERE, over the plan of the last stage."""

    items: tuple[exp.Expr, ...]
    having: exp.Expr | None
    qualify: exp.Expr | None
    order: tuple[exp.Expr, ...]

    @property
    def trees(self) -> tuple[exp.Expr, ...]:
        optional = tuple(tree for tree in (self.having, self.qualify) if tree is not None)
        return (*self.items, *optional, *self.order)

    def with_trees(self, trees: Sequence[exp.Expr]) -> Parts:
        """The same parts with other expressions, in the order of `self.trees`."""
        rest = list(trees)
        items = tuple(rest.pop(0) for _ in self.items)
        having = rest.pop(0) if self.having is not None else None
        qualify = rest.pop(0) if self.qualify is not None else None
        return Parts(items, having, qualify, tuple(rest))


def bind_select(select: exp.Select, context: Context, bind_query: BindQuery) -> Bound:
    """The plan of one SELECT, and its visible columns."""
    check_select(select)
    normal = normalise_windows(rewrite_subqueries(select, context, bind_query))
    select, window = normal.select, normal.window
    joined = bind_joins(select, context, bind_query) if select.args.get("joins") else None
    source, scope = (joined.source, joined.scope) if joined else bind_from(select, context, bind_query)
    if joined is None and (hint := early_fire(select, context)) is not None:
        warn_ignored(hint, context, "it is for joins")
    if window is not None:
        source = add_window(source, scope, window, context)
        scope = Scope(scope.alias, source.fields, parts=scope.parts)
    where = joined.where if joined else bind_where(select, scope)
    items = select_list(select.expressions, scope)
    keys = group_keys(select, scope, items)
    parts = Parts(
        tuple(item.tree for item in items),
        having(select, scope, items, keys or ()),
        qualify(select, scope, items),
        order_keys(select, scope, items),
    )
    grouped = keys is not None or any(contains_aggregate(tree) for tree in parts.trees) or parts.having is not None
    if grouped:
        check_grouped(keys or (), parts.trees)
    conditions = (*where.trees, *(tree for tree in (parts.having,) if tree is not None))
    described = describe(select, context, source, scope, conditions, (*parts.trees, *(keys or ())))

    plan, identity = _apply_where(context, source.plan, where), source.hidden
    if isinstance(source.plan, Window):
        identity = (*identity, source.plan.window.start, source.plan.window.end)
    if grouped:
        result = group_rows(context, source.plan, where, keys or (), parts.trees)
        plan, parts, identity = result.plan, parts.with_trees(result.trees), result.keys
    if parts.having is not None:
        plan = Filter(plan, Scalar(parts.having))
    plan, trees = _add_ranks(context.analyzer, plan, parts.trees)
    parts = parts.with_trees(trees)
    if parts.qualify is not None:
        plan = Filter(plan, Scalar(parts.qualify))
    chosen, fields = _columns(plan, parts, described, items)
    if select.args.get("distinct") is not None:
        return Bound(_distinct(select, plan, chosen, parts), fields)
    hidden = _hidden(plan, chosen, identity) + _correction_mark(plan, select)
    return Bound(_project(select, context, plan, chosen + hidden, parts), fields)


def _apply_where(context: Context, plan: Node, where: Where) -> Node:
    return filter_windows(context, plan, where) if isinstance(plan, Window) else where.apply(context.analyzer, plan)


def _columns(
    plan: Node, parts: Parts, described: Schema, items: Sequence[Selected]
) -> tuple[tuple[Item, ...], tuple[Field, ...]]:
    """The SELECT list as items of a projection, each with its own name, and as visible fields."""
    taken: set[str] = set()
    types = {column.name: column.type for column in plan.schema}
    chosen = tuple(
        Item(unique(column.name, taken), Scalar(tree), types.get(_plain(tree), column.type), column.nullable)
        for column, tree in zip(described, parts.items, strict=True)
    )
    fields = tuple(
        Field(column.name, item.name, item.type, item.nullable, selected.span)
        for column, item, selected in zip(described, chosen, items, strict=True)
    )
    return chosen, fields


def _plain(tree: exp.Expr) -> str:
    return tree.name if isinstance(tree, exp.Column) else ""


def _project(select: exp.Select, context: Context, plan: Node, items: tuple[Item, ...], parts: Parts) -> Node:
    """The SELECT list, and its first rows by ORDER BY. Order keys that are not selected are dropped afterwards."""
    limit = limit_of(select)
    if limit is None:
        return Project(plan, items)
    selected = {canonical_text(item.expression.tree): item.name for item in items}
    extra: list[tuple[str, exp.Expr]] = []
    for key in parts.order:
        if canonical_text(key.this) not in selected:
            selected[canonical_text(key.this)] = f"__o{len(extra)}"
            extra.append((f"__o{len(extra)}", key.this))
    below = make_storable(Project(plan, items + typed_items(context.analyzer, plan, extra)), span_of(select))
    top = _top(below, parts, selected, limit)
    return Project(top, tuple(keep(top, item.name) for item in items)) if extra else top


def _distinct(select: exp.Select, plan: Node, items: tuple[Item, ...], parts: Parts) -> Node:
    """Each row of the SELECT list once, and the first of them by ORDER BY."""
    check_comparable((item.schema for item in items), "DISTINCT of", span_of(select))
    rows = Distinct(make_storable(Project(plan, items), span_of(select)))
    limit = limit_of(select)
    if limit is None:
        return rows
    selected = {canonical_text(item.expression.tree): item.name for item in items}
    for key in parts.order:
        if canonical_text(key.this) not in selected:
            hint = "order by columns of the SELECT list"
            raise unsupported("ORDER BY of what SELECT DISTINCT leaves out", span_of(key), hint)
    return _top(rows, parts, selected, limit)


def _top(rows: Node, parts: Parts, selected: dict[str, str], limit: tuple[int, int]) -> TopN:
    names = [selected[canonical_text(key.this)] for key in parts.order]
    return TopN(rows, (), order_over(rows, parts.order, names), *limit)


def _hidden(plan: Node, items: tuple[Item, ...], identity: tuple[str, ...]) -> tuple[Item, ...]:
    """Key columns that are not selected: those that the grouping made, or that were hidden below. Nothing if the key
    would be incomplete even with them."""
    key = plan.traits.key
    selected = {item.expression.column for item in items}
    missing = [name for name in key or () if name not in selected]
    if not missing or not set(missing) <= set(identity):
        return ()
    return tuple(keep(plan, name, f"__k{number}") for number, name in enumerate(missing))


def _correction_mark(plan: Node, select: exp.Select) -> tuple[Item, ...]:
    """The column that ties corrections to the rows they correct; none with LIMIT, which emits other rows."""
    mark = plan.traits.mark
    return () if mark is None or limit_of(select) is not None else (keep(plan, mark),)


def _add_ranks(analyzer: Analyzer, plan: Node, trees: Sequence[exp.Expr]) -> tuple[Node, tuple[exp.Expr, ...]]:
    """Add a column for each ROW_NUMBER, RANK or DENSE_RANK, and read it in the expressions."""
    windows: dict[str, exp.Window] = {}
    for tree in trees:
        for node in tree.find_all(exp.Window):
            windows.setdefault(canonical_text(node), node)
    names = {text: f"__r{number}" for number, text in enumerate(windows)}
    for text, window in windows.items():
        plan = _add_rank(analyzer, plan, window, names[text])

    def swap(node: exp.Expr) -> exp.Expr:
        return column_tree(names[canonical_text(node)]) if isinstance(node, exp.Window) else node

    return plan, tuple(tree.transform(swap) for tree in trees)


def _add_rank(analyzer: Analyzer, plan: Node, window: exp.Window, out: str) -> Node:
    columns = ComputedColumns(analyzer, plan, out)
    partition = {columns.name(tree): tree for tree in window.args.get("partition_by") or ()}
    order = window.args.get("order")
    keys = order.expressions if order else ()
    names = [columns.name(key.this) for key in keys]
    rows, function = columns.plan(), call(window.this)
    by_name = {column.name: column for column in rows.schema}
    for name, tree in partition.items():
        check_comparable([by_name[name]], "PARTITION BY", span_of(tree), "partition by")
    return Rank(rows, tuple(partition), order_over(rows, keys, names), function.name if function else "", out)
