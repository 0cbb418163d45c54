"""Short ways to read one statement, query or expression."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from tidegate.errors import Error, Span
from tidegate.sql import parse, render
from tidegate.sql.statements import Query, Select, Statement

S = TypeVar("S", bound=Statement)


def one(kind: type[S], text: str) -> S:
    """The only statement of a text, which must be of that kind."""
    (statement,) = parse(text).statements
    assert isinstance(statement, kind)
    return statement


def query(text: str) -> Query:
    return one(Select, text).query


def expression(text: str) -> exp.Expr:
    """`a + 1` as it is read in a SELECT list."""
    (found,) = query(f"SELECT {text} FROM t").select.expressions
    assert isinstance(found, exp.Expr)
    return found


def written(text: str) -> str:
    """An expression read and written again."""
    return render(expression(text))


def cut(text: str, span: Span | None) -> str:
    """What a span points at."""
    assert span is not None
    return text[span.start : span.end]


def refusal(text: str) -> Error:
    try:
        parse(text)
    except Error as error:
        return error
    raise AssertionError(f"accepted: {text}")
