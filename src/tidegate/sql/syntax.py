"""Syntax errors, with their token and a guess at the fix.

They are those of sqlglot, and of texts that it accepts and Spark does not: `SELECT a, FROM t`, `f(, a)`, `b AS FROM`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Error, Span, did_you_mean, make, nearest
from tidegate.sql.cursor import Unreadable, printable, span_of_token, word
from tidegate.sql.emit import read_emit
from tidegate.sql.grammar import Parser
from tidegate.sql.types import SPARK_NAMES

T = TokenType

_ENDS = frozenset({T.R_PAREN, T.R_BRACKET, T.FROM, T.WHERE, T.GROUP_BY, T.HAVING, T.ORDER_BY, T.UNION, T.COMMA})
_NEED_MORE = frozenset({T.COMMA, T.ALIAS, T.SELECT, T.GROUP_BY})
_OPENINGS = frozenset({T.L_PAREN, T.L_BRACKET, T.SELECT, T.WHERE, T.GROUP_BY, T.ORDER_BY})


def check_gaps(tokens: list[Token], text: str) -> None:
    """Reject a list with a gap, AS without a name, and empty SELECT or GROUP BY."""
    solid = [token for token in tokens if token.token_type != T.HINT]
    for left, right in pairwise([*solid, None]):
        assert left is not None
        if left.token_type in _NEED_MORE and (right is None or right.token_type in _ENDS):
            where = f"before {right.text}" if right is not None else "at the end of the statement"
            _fail(f"something is missing after {_name_of(left)}, {where}", span_of_token(left), text)
        if right is not None and right.token_type == T.COMMA and left.token_type in _OPENINGS:
            _fail(f"something is missing after {left.text}, before ,", span_of_token(right), text)


def _name_of(token: Token) -> str:
    return "this comma" if token.token_type == T.COMMA else token.text


def _fail(message: str, span: Span, text: str) -> None:
    raise make("SYNTAX_ERROR", message=message, span=span, text=text)


_CLAUSES = """
    SELECT FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT JOIN INNER LEFT RIGHT FULL OUTER CROSS DISTINCT
    BETWEEN VALUES INTO EMIT CHANGES WATERMARK LATENESS WINDOW PARTITION OVER WITH
"""
CLAUSE_WORDS = _CLAUSES.split()
_BEGINNINGS = (
    "CREATE",
    "INSERT",
    "SELECT",
    "DROP",
    "SHOW",
    "DELETE",
    "UPDATE",
    "ADVANCE",
    "DESCRIBE",
    "EXPLAIN",
    "SET",
)


def explain_error(parser: Parser, error: Unreadable) -> Error:
    """Our syntax error for one of sqlglot's."""
    token = parser.here if error.description.startswith("Expected END") else error.token
    span = span_of_token(token) if token is not None else parser.next_span()
    return make(
        "SYNTAX_ERROR",
        message=_message(parser, error.description, token),
        hint=_hint(parser, error.description, span, token),
        span=span,
        text=parser.sql,
    )


def unexpected_token(parser: Parser) -> Error:
    """The error for a token after a complete statement."""
    token = parser.start_token()
    if word(token) == "ON" and word(parser.peek(-1)) == "EMIT":
        return _bad_emit(parser)
    span = span_of_token(token)
    missing_semicolon = "statements are separated by ;" if word(token) in _BEGINNINGS else None
    return make(
        "SYNTAX_ERROR",
        message=f"unexpected {_quote_token(token)}",
        hint=_missing_by(parser) or _misspelling_hint(parser, span) or missing_semicolon,
        span=span,
        text=parser.sql,
    )


def _bad_emit(parser: Parser) -> Error:
    """`FROM t EMIT ON SOMETHING`, where EMIT could have been an alias."""
    parser._advance(-1)
    try:
        read_emit(parser)
    except Error as error:
        return error
    return unexpected_token(parser)


def _message(parser: Parser, description: str, token: Token | None) -> str:
    where = f"before {_quote_token(token)}" if token is not None else "at the end of the statement"
    if match := re.fullmatch(r"Expecting (\S+)", description):
        return f"expected {match[1]} {where}"
    if description.startswith("Expected table name"):
        return f"expected the name of a relation {where}"
    if description.startswith("Expected TYPE"):
        return f"there is no type {token.text}" if token and word(token).isidentifier() else f"expected a type {where}"
    if description.startswith("Expected END"):
        return f"expected END of CASE {where}"
    if description.startswith("Required"):
        before = parser.peek(-1)
        after = f"after {_quote_token(before)}, " if before else ""
        return f"something is missing {after}{where}"
    if description.startswith("Invalid expression"):
        return f"unexpected {_quote_token(token)}" if token is not None else f"something is missing {where}"
    first = description.split(". ")[0].split("<class")[0].strip().rstrip(".:")
    return f"{first[:1].lower()}{first[1:]}, {where}"


def _hint(parser: Parser, description: str, span: Span, token: Token | None) -> str | None:
    if description.startswith("Expected TYPE") and token is not None and word(token).isidentifier():
        return did_you_mean(token.text, SPARK_NAMES)
    return _misspelling_hint(parser, span)


def _quote_token(token: Token) -> str:
    return f"'{token.text}'" if token.token_type == TokenType.STRING else printable(token.text)


def _missing_by(parser: Parser) -> str | None:
    """A hint for `GROUP a`, where GROUP was read as an alias."""
    before = word(parser.peek(-1))
    return f"write {before} BY" if before in ("GROUP", "ORDER", "PARTITION", "SORT") else None


def _misspelling_hint(parser: Parser, span: Span) -> str | None:
    """A hint for a word here or just before that resembles a keyword: `SELECT a FORM t`."""
    until = [t for t in parser._tokens if t.start <= span.start]
    for token in reversed(until[-3:]):
        text = word(token)
        if text.isalpha() and len(text) > 2 and text not in CLAUSE_WORDS:
            close = nearest(text, CLAUSE_WORDS, limit=1)
            if close:
                return f"did you mean {close[0]} for {token.text}?"
    return None
