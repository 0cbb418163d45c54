"""Any query -> plan: SELECT, set operations, queries in parentheses, WITH."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sqlglot import exp

from tidegate.bind.clauses import Selected, limit_of, order_keys, order_over
from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.scope import Scope
from tidegate.bind.select import bind_select
from tidegate.bind.source import BindQuery, fields_of
from tidegate.bind.unsupported import cast, check_clauses, check_comparable, make_storable, unsupported
from tidegate.core.schema import Schema
from tidegate.core.types import without_void
from tidegate.errors import Error, make
from tidegate.plan import Distinct, Item, Node, Project, Scalar, SetOp, TopN, UnionAll
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of


def bind_set_operation(query: exp.SetOperation, context: Context, bind_query: BindQuery) -> Bound:
    """The plan of UNION, EXCEPT or INTERSECT."""
    if query.args.get("by_name") or query.args.get("on"):
        raise unsupported("UNION BY NAME", span_of(query), "list the columns in the same order")
    left, right = bind_query(query.this, context), bind_query(query.expression, context)
    result = _result_columns(query, context, left, right)
    plan = _combine(query, _cast_to(left, result), _cast_to(right, result))
    fields = tuple(
        replace(field, name=column.name, span=first.span)
        for field, column, first in zip(fields_of(plan), result, left.fields, strict=True)
    )
    return Bound(_apply_limit(query, plan, Scope(None, fields)), fields)


def bind_parenthesized(query: exp.Query, bound: Bound) -> Bound:
    """ORDER BY ... LIMIT around a whole query."""
    plan = bound.visible()
    scope = Scope(None, bound.fields)
    return Bound(_apply_limit(query, plan, scope), bound.fields) if limit_of(query) else bound


def _apply_limit(query: exp.Query, plan: Node, scope: Scope) -> Node:
    items = [Selected(field.name, column_tree(field.column), field.span) for field in scope.fields]
    keys = order_keys(query, scope, items)
    limit = limit_of(query)
    if limit is None:
        return plan
    for key in keys:
        if not isinstance(key.this, exp.Column):
            raise unsupported("ORDER BY of an expression here", span_of(key), "put the query into FROM (...)")
    rows = make_storable(plan, span_of(query))
    return TopN(rows, (), order_over(rows, keys, [key.this.name for key in keys]), *limit)


def _result_columns(query: exp.SetOperation, context: Context, left: Bound, right: Bound) -> Schema:
    """The columns of the result: the names of the left side, and types that Spark finds for both."""
    word = type(query).__name__.upper()
    if len(left.fields) != len(right.fields):
        message = f"the sides of {word} have {len(left.fields)} and {len(right.fields)} columns"
        hint = "both sides need the same number of columns"
        raise make("TYPE_MISMATCH", message=message, hint=hint, span=span_of(query.expression))
    sides = {"__left": Scope(None, left.fields).schema, "__right": Scope(None, right.fields).schema}
    if [column.type for column in sides["__left"]] == [column.type for column in sides["__right"]]:
        return sides["__left"]
    try:
        columns = context.analyzer.query("SELECT * FROM __left UNION ALL SELECT * FROM __right", sides)
    except Error as error:
        error.span = span_of(query.expression)
        raise
    return tuple(
        column if column.type == "void" else replace(column, type=without_void(column.type)) for column in columns
    )


def _cast_to(side: Bound, result: Schema) -> Node:
    """The side cast to the columns of the result."""
    taken: set[str] = set()
    items = []
    for field, column in zip(side.fields, result, strict=True):
        tree: exp.Expr = column_tree(field.column)
        if field.type != column.type:
            tree = cast(tree, column.type)
        items.append(Item(unique(column.name, taken), Scalar(tree), column.type, field.nullable))
    return Project(side.plan, tuple(items))


def _combine(query: exp.SetOperation, left: Node, right: Node) -> Node:
    keeps_all = not query.args.get("distinct")
    if isinstance(query, exp.Union):
        both = UnionAll((*_sides(left), right))
        if keeps_all:
            return both
        check_comparable(both.schema, "UNION of", span_of(query))
        return Distinct(make_storable(both, span_of(query)))
    check_comparable(left.schema, f"{type(query).__name__.upper()} of", span_of(query))
    kind: Literal["except", "intersect"] = "except" if isinstance(query, exp.Except) else "intersect"
    return SetOp(kind, keeps_all, make_storable(left, span_of(query)), make_storable(right, span_of(query)))


def _sides(left: Node) -> tuple[Node, ...]:
    """The sides of a union below, if the left side only passes its columns: a UNION ALL b UNION ALL c is one union."""
    if isinstance(left, Project) and isinstance(left.input, UnionAll):
        passes = [item.expression.column for item in left.items] == list(left.input.columns)
        if passes and left.columns == left.input.columns:
            return left.input.sides
    return (left,)


def bind_query(query: exp.Query, context: Context) -> Bound:
    """The plan of a SELECT, a set operation or a query in parentheses, with its WITH clause."""
    check_clauses(query)
    _check_with(query)
    inside = context.with_ctes(query)
    if isinstance(query, exp.Select):
        return bind_select(query, inside, bind_query)
    if isinstance(query, exp.SetOperation):
        return bind_set_operation(query, inside, bind_query)
    if isinstance(query, exp.Subquery):
        return bind_parenthesized(query, bind_query(query.this, inside))
    if isinstance(query, exp.Values):
        raise unsupported("VALUES in a view", span_of(query), "create a table and insert the rows")
    raise unsupported("this kind of query", span_of(query), "write SELECT ... FROM ...")


def _check_with(query: exp.Query) -> None:
    clause = query.args.get("with_")
    if clause is None:
        return
    if clause.args.get("recursive"):
        raise unsupported("WITH RECURSIVE", span_of(clause))
    seen: set[str] = set()
    for cte in clause.expressions:
        if cte.alias.casefold() in seen:
            message = f"WITH defines {cte.alias} twice"
            raise make("ALREADY_EXISTS", message=message, hint="give one another name", span=span_of(cte.args["alias"]))
        seen.add(cte.alias.casefold())
