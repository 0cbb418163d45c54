"""What sqlglot's parser could not read, said in words, with the token it stood at and a guess at what was meant."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token

from tidegate.errors import Error, Span, make, nearest
from tidegate.sql.cursor import Unreadable, span_of_token, word
from tidegate.sql.grammar import Parser

_CLAUSES = """
    SELECT FROM WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT JOIN INNER LEFT RIGHT FULL OUTER CROSS
    DISTINCT BETWEEN VALUES INTO EMIT CHANGES WATERMARK LATENESS WINDOW PARTITION OVER WITH
"""
CLAUSE_WORDS = _CLAUSES.split()


def explained(parser: Parser, error: Unreadable) -> Error:
    """The syntax error to show for sqlglot's."""
    token = error.token
    span = span_of_token(token) if token is not None else parser.place()
    return make(
        "SYNTAX_ERROR",
        message=_message(error.description, token),
        hint=_misspelt(parser, span),
        span=span,
        text=parser.sql,
    )


def unexpected(parser: Parser) -> Error:
    """Something is left after a complete statement."""
    token = parser.start_token()
    if word(token) == "ON" and word(parser.peek(-1)) == "EMIT":
        return _bad_emit(parser)
    return make(
        "SYNTAX_ERROR",
        message=f"unexpected {_shown(token)}",
        hint=_misspelt(parser, span_of_token(token)) or _missing_semicolon(token),
        span=span_of_token(token),
        text=parser.sql,
    )


def _bad_emit(parser: Parser) -> Error:
    """`FROM t EMIT ON SOMETHING`, where EMIT could have been an alias."""
    from tidegate.sql.emit import read_emit

    parser._advance(-1)
    try:
        read_emit(parser)
    except Error as error:
        return error
    parser._advance(1)
    return unexpected(parser)


def _message(description: str, token: Token | None) -> str:
    where = f"before {_shown(token)}" if token is not None else "at the end of the statement"
    if found := re.fullmatch(r"Expecting (\S+)", description):
        return f"expected {found[1]} {where}"
    if description.startswith("Expected table name"):
        return f"expected the name of a relation {where}"
    if description.startswith(("Required argument", "Invalid expression")):
        return f"something is missing or wrong {where}" if token is None else f"unexpected {_shown(token)}"
    first = description.split(". ")[0].split("<class")[0].strip().rstrip(".:")
    return f"{first[:1].lower()}{first[1:]}, {where}" if first else f"cannot read this {where}"


def _shown(token: Token) -> str:
    return f"'{token.text}'" if not word(token) else token.text


def _misspelt(parser: Parser, span: Span) -> str | None:
    """A word here or just before that looks like a keyword: `SELECT a FORM t`."""
    candidates = [t for t in parser._tokens if t.end + 1 >= span.start - 40 and t.start <= span.start][-3:]
    for token in reversed(candidates):
        written = word(token)
        if written.isalpha() and len(written) > 2 and written not in CLAUSE_WORDS:
            close = nearest(written, CLAUSE_WORDS, limit=1)
            if close:
                return f"did you mean {close[0]} for {token.text}?"
    return None


def _missing_semicolon(token: Token) -> str | None:
    starts = ("CREATE", "INSERT", "SELECT", "DROP", "SHOW", "DELETE", "UPDATE", "ADVANCE", "DESCRIBE", "EXPLAIN", "SET")
    return "statements are separated by ;" if word(token) in starts else None
