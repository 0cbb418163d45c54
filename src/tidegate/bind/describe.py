"""Spark's word on a SELECT: names and types of its columns, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.context import Bound, Context
from tidegate.bind.scope import Scope
from tidegate.catalog.schema import Schema
from tidegate.errors import Error
from tidegate.plan import Node
from tidegate.sql import render, span_of

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
        return context.analyzer.query(_core(select, scope), {RELATION: scope.schema})
    except Error as error:
        found = typing.located(context.analyzer, source.plan.schema, (*conditions, *trees), error)
        if found.span is None:
            found.span = span_of(_not_boolean(context, source.plan, conditions) or select)
        raise found from None


def _core(select: exp.Select, scope: Scope) -> str:
    """The SELECT without what stands around it: WITH, QUALIFY, ORDER BY, LIMIT."""
    core = select.copy()
    for clause in ("with_", "qualify", "order", "limit", "offset", "hint"):
        core.set(clause, None)
    table = exp.Table(this=exp.to_identifier(RELATION, quoted=True))
    if scope.alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(scope.alias, quoted=True)))
    core.set("from_", exp.From(this=table))
    return render(core)


def _not_boolean(context: Context, plan: Node, conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """The first condition that is not a condition."""
    for tree in conditions:
        if typing.typed(context.analyzer, plan.schema, [tree])[0].type != "boolean":
            return tree
    return None
