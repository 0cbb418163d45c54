"""Helpers that parse one statement, query or expression."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from tidegate.errors import Error, Span
from tidegate.sql import parse, render
from tidegate.sql.statements import Query, Select, Statement

S = TypeVar("S", bound=Statement)


def one(kind: type[S], text: str) -> S:
    """Parses the only statement of a text, which must be of this kind."""
    (statement,) = parse(text).statements
    assert isinstance(statement, kind)
    return statement


def query(text: str) -> Query:
    return one(Select, text).query


def expression(text: str) -> exp.Expr:
    """The tree of an expression such as `a + 1`, parsed in a SELECT list."""
    (tree,) = query(f"SELECT {text} FROM t").select.expressions
    assert isinstance(tree, exp.Expr)
    return tree


def rerender(text: str) -> str:
    """An expression parsed and rendered again."""
    return render(expression(text))


def text_of(text: str, span: Span | None) -> str:
    """The text of a span."""
    assert span is not None
    return text[span.start : span.end]


def error_of(text: str) -> Error:
    try:
        parse(text)
    except Error as error:
        return error
    raise AssertionError(f"accepted: {text}")
