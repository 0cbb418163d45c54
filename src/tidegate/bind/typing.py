"""Types from Spark's analyser, for expressions and for a whole SELECT, and the place of a mistake that it finds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind.context import Analyzer, Bound, Context
from tidegate.bind.scope import Scope
from tidegate.core.schema import Schema
from tidegate.errors import Error
from tidegate.plan import Item, Node, Scalar
from tidegate.sql import render, span_of

_STANDALONE = (exp.Column, exp.Func, exp.Binary, exp.Unary, exp.Condition, exp.Window, exp.Filter, exp.IgnoreNulls)
_DEPENDENT = (exp.Lambda, exp.Identifier, exp.Interval, exp.DataType, exp.Query, exp.Ordered)


def types_of(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr]) -> Schema:
    """The types of expressions over the bare columns of `schema`."""
    if not trees:
        return ()
    try:
        return analyzer.columns(schema, [render(tree) for tree in trees])
    except Error as error:
        raise locate(analyzer, schema, trees, error) from None


def items(analyzer: Analyzer, plan: Node, wanted: Sequence[tuple[str, exp.Expr]]) -> tuple[Item, ...]:
    """Items of a projection over `plan`. Plain columns have the type that they have below."""
    computed = [tree for _, tree in wanted if not isinstance(tree, exp.Column)]
    answers = iter(types_of(analyzer, plan.schema, computed))
    by_name = {column.name: column for column in plan.schema}
    found = []
    for name, tree in wanted:
        column = by_name[tree.name] if isinstance(tree, exp.Column) else next(answers)
        found.append(Item(name, Scalar(tree), column.type, column.nullable))
    return tuple(found)


def locate(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr], error: Error) -> Error:
    """The error with the place of the expression that causes it."""
    for tree in trees:
        found = _culprit(analyzer, schema, tree, error.code)
        if found is not None:
            node, cause = found
            cause.span = span_of(node)
            return cause
    if error.span is None and len(trees) == 1:
        error.span = span_of(trees[0])
    return error


def _culprit(analyzer: Analyzer, schema: Schema, tree: exp.Expr, code: str) -> tuple[exp.Expr, Error] | None:
    """The innermost expression that is refused with that code."""
    for child in tree.iter_expressions():
        if not isinstance(child, _DEPENDENT):
            found = _culprit(analyzer, schema, child, code)
            if found is not None:
                return found
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
    """The columns of a SELECT as written, over a relation like its FROM. `conditions` and `trees` are its expressions
    over the plan of FROM, to find the place of a mistake."""
    try:
        return context.analyzer.query(_core(select, scope), _relations(scope))
    except Error as error:
        found = locate(context.analyzer, source.plan.schema, (*conditions, *trees), error)
        if found.span is None:
            found.span = span_of(_not_boolean(context, source.plan, conditions) or select)
        raise found from None


def _core(select: exp.Select, scope: Scope) -> str:
    """The SELECT without what stands around it: WITH, QUALIFY, ORDER BY, LIMIT."""
    core = select.copy()
    if any(part.unseen for part in scope.parts):
        core.set("expressions", [each for item in core.expressions for each in _without_star(item, scope)])
    for clause in ("with_", "qualify", "order", "limit", "offset", "hint"):
        core.set(clause, None)
    if scope.parts:
        _put_joins(core, scope)
    else:
        core.set("from_", exp.From(this=_table(RELATION, scope.alias)))
    return render(core)


def _without_star(item: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """What a star means where relations are joined that it does not mean."""
    if not isinstance(item, exp.Star) or item.args.get("except_"):
        return [item]
    found: list[exp.Expr] = []
    for part in scope.parts:
        named = exp.to_identifier(part.alias, quoted=True) if part.alias else None
        fields = () if part.unseen else part.fields
        found += [exp.Column(this=exp.to_identifier(each.name, quoted=True), table=named) for each in fields]
    return found


def _relations(scope: Scope) -> dict[str, Schema]:
    """What FROM reads, by the names it has in the core of the SELECT."""
    if not scope.parts:
        return {RELATION: scope.schema}
    found = {f"{RELATION}{number}": part.schema for number, part in enumerate(scope.parts)}
    added = _added(scope)
    return {**found, RELATION: added.schema} if added.fields else found


def _added(scope: Scope) -> Scope:
    """What is of none of the relations: the edges of a window over the join."""
    known = {field.name.casefold() for part in scope.parts for field in part.fields}
    return Scope(None, tuple(field for field in scope.fields if field.name.casefold() not in known))


def _put_joins(core: exp.Select, scope: Scope) -> None:
    """The same joins over relations like those of FROM; what ON says does not matter for names and types."""
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
    if _added(scope).fields:
        joins.append(exp.Join(this=_table(RELATION, None), kind="CROSS"))
    core.set("joins", joins)


def _table(name: str, alias: str | None) -> exp.Table:
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return table


def _not_boolean(context: Context, plan: Node, conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """The first condition that is not a condition."""
    for tree in conditions:
        if types_of(context.analyzer, plan.schema, [tree])[0].type != "boolean":
            return tree
    return None
