"""Calls for which Spark ends its Java process, in a form in which it does not. Only what Spark runs is rewritten:
expressions are stored as they were written."""

from __future__ import annotations

from sqlglot import exp, parse_one

SMALLEST_INDEX = str(-(2**31))


def guard_calls(tree: exp.Expr) -> exp.Expr:
    """The expression with guarded calls. It may change the tree it is given.

    Spark compares the absolute value of an index with the size of the array. That of the smallest INT is negative, so
    `element_at` and `try_element_at` read memory far away from the array.
    """
    return tree.transform(_guard, copy=False) if _has_calls(tree) else tree


def _has_calls(tree: exp.Expr) -> bool:
    return any(_is_element_at(node) for node in tree.find_all(exp.Anonymous))


def _is_element_at(node: exp.Expr) -> bool:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name in ("element_at", "try_element_at") and len(node.expressions) == 2


def _guard(node: exp.Expr) -> exp.Expr:
    if not _is_element_at(node) or isinstance(node.expressions[1], exp.Literal):
        return node
    container, index = (guard_calls(each) for each in node.expressions)
    guarded = parse_one(
        f"IF(startswith(typeof(c), 'array') AND CAST(i AS STRING) = '{SMALLEST_INDEX}', NULL, i)", dialect="spark"
    )
    parts = {"c": container, "i": index}
    guarded = guarded.transform(
        lambda each: parts[each.name].copy() if isinstance(each, exp.Column) and each.name in parts else each
    )
    return exp.Anonymous(this=node.this, expressions=[container, guarded])
