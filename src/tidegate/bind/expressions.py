"""Expressions over a plan: their types from Spark's analyser, the span of an error, and columns that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from tidegate.bind.context import Analyzer, Bound, Context
from tidegate.bind.scope import Scope
from tidegate.core.schema import Schema
from tidegate.errors import Error
from tidegate.plan import Item, Node, Project, Scalar, keep
from tidegate.sql import render, span_of

_STANDALONE = (exp.Column, exp.Func, exp.Binary, exp.Unary, exp.Condition, exp.Window, exp.Filter, exp.IgnoreNulls)
_DEPENDENT = (exp.Lambda, exp.Identifier, exp.Interval, exp.DataType, exp.Query, exp.Ordered)


def canonical_text(tree: exp.Expr) -> str:
    """Text that is equal for expressions that differ only in the case of function names and in outer parentheses."""

    def lower(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            return exp.Anonymous(this=node.this.lower(), expressions=node.expressions)
        return node

    return render(tree.unnest().transform(lower))


def split_and(tree: exp.Expr, splits: Callable[[exp.Between], bool] = lambda _: False) -> Iterator[exp.Expr]:
    """The conditions that AND connects. A BETWEEN for which `splits` is true is two of them."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from split_and(tree.left, splits)
        yield from split_and(tree.right, splits)
    elif isinstance(tree, exp.Between) and splits(tree):
        yield exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        yield exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    else:
        yield tree


def types_of(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr]) -> Schema:
    """The types of expressions over the bare columns of `schema`."""
    if not trees:
        return ()
    try:
        return analyzer.columns(schema, [render(tree) for tree in trees])
    except Error as error:
        raise locate(analyzer, schema, trees, error) from None


def typed_items(analyzer: Analyzer, plan: Node, named: Sequence[tuple[str, exp.Expr]]) -> tuple[Item, ...]:
    """Items of a projection over `plan`, from (name, expression). A plain column has the type that it has below."""
    computed = [tree for _, tree in named if not isinstance(tree, exp.Column)]
    types = iter(types_of(analyzer, plan.schema, computed))
    by_name = {column.name: column for column in plan.schema}
    items = []
    for name, tree in named:
        column = by_name[tree.name] if isinstance(tree, exp.Column) else next(types)
        items.append(Item(name, Scalar(tree), column.type, column.nullable))
    return tuple(items)


class ComputedColumns:
    """Finds a column of a relation for each expression. Expressions that are not plain columns are added under names
    that begin with `prefix`, each once."""

    def __init__(self, analyzer: Analyzer, plan: Node, prefix: str) -> None:
        self._analyzer = analyzer
        self._plan = plan
        self._prefix = prefix
        self._added: dict[str, tuple[str, exp.Expr]] = {}

    def name(self, tree: exp.Expr) -> str:
        """The name of the column that holds an expression."""
        tree = tree.unnest()
        if isinstance(tree, exp.Column):
            return tree.name
        fresh = (f"{self._prefix}_{len(self._added)}", tree)
        return self._added.setdefault(canonical_text(tree), fresh)[0]

    def plan(self) -> Node:
        """The relation with the added columns."""
        if not self._added:
            return self._plan
        own = tuple(keep(self._plan, name) for name in self._plan.columns)
        return Project(self._plan, own + typed_items(self._analyzer, self._plan, list(self._added.values())))


def locate(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr], error: Error) -> Error:
    """The error with the span of the expression that causes it."""
    for tree in trees:
        culprit = _culprit(analyzer, schema, tree, error.code)
        if culprit is not None:
            node, cause = culprit
            cause.span = span_of(node)
            return cause
    if error.span is None and len(trees) == 1:
        error.span = span_of(trees[0])
    return error


def _culprit(analyzer: Analyzer, schema: Schema, tree: exp.Expr, code: str) -> tuple[exp.Expr, Error] | None:
    """The innermost expression that Spark rejects with that code, and its error."""
    for child in tree.iter_expressions():
        if not isinstance(child, _DEPENDENT) and not (isinstance(tree, exp.Window) and child is tree.this):
            culprit = _culprit(analyzer, schema, child, code)
            if culprit is not None:
                return culprit
    if not isinstance(tree, _STANDALONE) or (isinstance(tree, exp.If) and isinstance(tree.parent, exp.Case)):
        return None
    try:
        analyzer.columns(schema, [render(tree)])
    except Error as error:
        return (tree, error) if error.code == code else None
    return None


RELATION = "__relation"


def describe(
    select: exp.Select,
    context: Context,
    source: Bound,
    scope: Scope,
    conditions: Sequence[exp.Expr],
    trees: Sequence[exp.Expr],
) -> Schema:
    """The columns of a SELECT as written, over relations with the columns of its FROM. `conditions` and `trees` are its
    expressions over the plan of FROM, in which an error is located."""
    try:
        return context.analyzer.query(_core(select, scope), _relations(scope))
    except Error as error:
        located = locate(context.analyzer, source.plan.schema, (*conditions, *trees), error)
        if located.span is None:
            located.span = span_of(_not_boolean(context, source.plan, conditions) or select)
        raise located from None


def _core(select: exp.Select, scope: Scope) -> str:
    """The SELECT without WITH, DISTINCT, QUALIFY, ORDER BY and LIMIT, as Spark SQL."""
    core = select.copy()
    if any(part.unseen for part in scope.parts):
        core.set("expressions", [each for item in core.expressions for each in _expand_star(item, scope)])
    for clause in ("with_", "distinct", "qualify", "order", "limit", "offset", "hint"):
        core.set(clause, None)
    if scope.parts:
        _replace_joins(core, scope)
    else:
        core.set("from_", exp.From(this=_table(RELATION, scope.alias)))
    return render(core)


def _expand_star(item: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The columns of `*` in a join with relations that it does not cover."""
    if not isinstance(item, exp.Star) or item.args.get("except_"):
        return [item]
    columns: list[exp.Expr] = []
    for part in scope.parts:
        qualifier = exp.to_identifier(part.alias, quoted=True) if part.alias else None
        fields = () if part.unseen else part.fields
        columns += [exp.Column(this=exp.to_identifier(each.name, quoted=True), table=qualifier) for each in fields]
    return columns


def _relations(scope: Scope) -> dict[str, Schema]:
    """The relations of FROM by the names that `_core` gives them."""
    if not scope.parts:
        return {RELATION: scope.schema}
    relations = {f"{RELATION}{number}": part.schema for number, part in enumerate(scope.parts)}
    edges = _window_edges(scope)
    return {**relations, RELATION: edges.schema} if edges.fields else relations


def _window_edges(scope: Scope) -> Scope:
    """The fields that belong to none of the joined relations: the edges of a window over the join."""
    known = {field.name.casefold() for part in scope.parts for field in part.fields}
    return Scope(None, tuple(field for field in scope.fields if field.name.casefold() not in known))


def _replace_joins(core: exp.Select, scope: Scope) -> None:
    """Read the relations of `_relations` instead of those of FROM; ON does not matter for names and types."""
    names = iter(range(len(scope.parts)))
    core.set("from_", exp.From(this=_table(f"{RELATION}{next(names)}", scope.parts[0].alias)))
    joins = []
    for join in core.args["joins"]:
        if (join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
            continue
        number = next(names)
        join.set("this", _table(f"{RELATION}{number}", scope.parts[number].alias))
        if not join.args.get("using") and not join.args.get("method") and join.args.get("kind") != "CROSS":
            join.set("on", exp.true())
        joins.append(join)
    if _window_edges(scope).fields:
        joins.append(exp.Join(this=_table(RELATION, None), kind="CROSS"))
    core.set("joins", joins)


def _table(name: str, alias: str | None) -> exp.Table:
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return table


def _not_boolean(context: Context, plan: Node, conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """The first condition that is not BOOLEAN."""
    for tree in conditions:
        if types_of(context.analyzer, plan.schema, [tree])[0].type != "boolean":
            return tree
    return None
