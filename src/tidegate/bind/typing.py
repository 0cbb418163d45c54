"""Asks Spark for types, and finds the smallest part of an expression that Spark refuses."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind.analyzer import Analyzer
from tidegate.core.schema import Schema
from tidegate.errors import Error
from tidegate.plan import Item, Node, Scalar
from tidegate.sql import render, span_of

_STANDALONE = (exp.Column, exp.Func, exp.Binary, exp.Unary, exp.Condition, exp.Window, exp.Filter, exp.IgnoreNulls)
_DEPENDENT = (exp.Lambda, exp.Identifier, exp.Interval, exp.DataType, exp.Query, exp.Ordered)


def typed(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr]) -> Schema:
    """The types of expressions over the bare columns of `schema`."""
    if not trees:
        return ()
    try:
        return analyzer.columns(schema, [render(tree) for tree in trees])
    except Error as error:
        raise located(analyzer, schema, trees, error) from None


def items(analyzer: Analyzer, plan: Node, wanted: Sequence[tuple[str, exp.Expr]]) -> tuple[Item, ...]:
    """Items of a projection over `plan`. Plain columns have the type that they have below."""
    computed = [tree for _, tree in wanted if not isinstance(tree, exp.Column)]
    answers = iter(typed(analyzer, plan.schema, computed))
    by_name = {column.name: column for column in plan.schema}
    found = []
    for name, tree in wanted:
        column = by_name[tree.name] if isinstance(tree, exp.Column) else next(answers)
        found.append(Item(name, Scalar(tree), column.type, column.nullable))
    return tuple(found)


def located(analyzer: Analyzer, schema: Schema, trees: Sequence[exp.Expr], error: Error) -> Error:
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
