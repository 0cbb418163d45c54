"""Gaps that sqlglot reads over and Spark does not: `SELECT a, FROM t`, `f(, a)`, `b AS FROM`, `GROUP BY HAVING`."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Span, make
from tidegate.sql.cursor import span_of_token

T = TokenType

_ENDS = frozenset({T.R_PAREN, T.R_BRACKET, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.UNION, T.COMMA})
_NEED_MORE = frozenset({T.COMMA, T.ALIAS, T.SELECT, T.GROUP_BY})
_OPENINGS = frozenset({T.L_PAREN, T.L_BRACKET, T.SELECT, T.WHERE, T.GROUP_BY, T.ORDER_BY})


def check_gaps(tokens: list[Token], text: str) -> None:
    """Refuses a list with an empty place, AS without a name, SELECT or GROUP BY without anything."""
    solid = [token for token in tokens if token.token_type != T.HINT]
    for left, right in pairwise([*solid, None]):
        assert left is not None
        if left.token_type in _NEED_MORE and (right is None or right.token_type in _ENDS):
            where = f"before {right.text}" if right is not None else "at the end of the statement"
            _refuse(f"something is missing after {_named(left)}, {where}", span_of_token(left), text)
        if right is not None and right.token_type == T.COMMA and left.token_type in _OPENINGS:
            _refuse(f"something is missing after {left.text}, before ,", span_of_token(right), text)


def _named(token: Token) -> str:
    return "this comma" if token.token_type == T.COMMA else token.text


def _refuse(message: str, span: Span, text: str) -> None:
    raise make("SYNTAX_ERROR", message=message, span=span, text=text)
