"""Where in a user's text something stands that an error of Spark names."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Span
from tidegate.sql.cursor import span_of_token
from tidegate.sql.dialect import Tidegate


def find_place(text: str, statement: Span, near: Sequence[str]) -> Span:
    """The span of the first of these texts that the statement contains, whatever its quotes, case and blanks; that of
    the last name of one (`pirce` of `bids.pirce`); else of the whole statement."""
    tokens = [token for token in _tokens(text) if statement.start <= token.start < statement.end]
    words = [token.text.casefold() for token in tokens]
    candidates = [[token.text.casefold() for token in _tokens(each)] for each in near]
    for wanted in (*candidates, *(each[-1:] for each in candidates if "." in each)):
        for start in range(len(words) - len(wanted) + 1):
            if wanted and words[start : start + len(wanted)] == wanted:
                return span_of_token(tokens[start]).hull(span_of_token(tokens[start + len(wanted) - 1]))
    solid = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    return span_of_token(solid[0]).hull(span_of_token(solid[-1])) if solid else statement


def _tokens(text: str) -> list[Token]:
    try:
        return Tidegate().tokenize(text)
    except TokenError:
        return []
