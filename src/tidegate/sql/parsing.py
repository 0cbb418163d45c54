"""Text -> statements."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from tidegate.errors import Error, make, nearest
from tidegate.sql import changes, inspection
from tidegate.sql.create import read_create
from tidegate.sql.cursor import Unreadable, span_of_token, word
from tidegate.sql.dialect import Tidegate
from tidegate.sql.gaps import check_gaps
from tidegate.sql.grammar import Parser
from tidegate.sql.statements import Script, Statement
from tidegate.sql.syntax import explained, unexpected
from tidegate.sql.tokens import statements

Reader = Callable[[Parser], Statement]

READERS: dict[str, Reader] = {
    "ADVANCE": changes.read_advance,
    "CREATE": read_create,
    "DELETE": changes.read_delete,
    "DESC": inspection.read_describe,
    "DESCRIBE": inspection.read_describe,
    "DROP": inspection.read_drop,
    "EXPLAIN": inspection.read_explain,
    "FROM": inspection.read_select,
    "INSERT": changes.read_insert,
    "LATENESS": changes.read_lateness,
    "REFRESH": inspection.read_refresh,
    "SELECT": inspection.read_select,
    "SET": inspection.read_set,
    "SHOW": inspection.read_show,
    "SUBSCRIBE": inspection.read_subscribe,
    "UPDATE": changes.read_update,
    "VALUES": inspection.read_select,
    "WITH": inspection.read_select,
    "(": inspection.read_select,
}


def parse(text: str) -> Script:
    """All statements of a text. Spans in them, and in errors, are offsets into this text."""
    return Script(text, tuple(_statement(tokens, text) for tokens in statements(text)))


@lru_cache(maxsize=4096)
def parse_definition(text: str) -> Statement:
    """The one statement of a text. Whoever changes one of its trees copies it first: it is shared."""
    (statement,) = parse(text).statements
    return statement


def _statement(tokens: list[Token], text: str) -> Statement:
    parser = Tidegate().parser()
    assert isinstance(parser, Parser)
    parser.open(tokens, text)
    try:
        statement = _reader(tokens[0], text)(parser)
    except Unreadable as error:
        raise explained(parser, error) from None
    except ParseError as error:
        raise explained(parser, Unreadable(str(error), parser.here)) from None
    except Error as error:
        raise error.in_text(text) from None
    if parser.here is not None:
        raise unexpected(parser)
    check_gaps(tokens, text)
    return statement


def _reader(first: Token, text: str) -> Reader:
    """Statements are known by their first word."""
    reader = READERS.get(word(first))
    if reader is None:
        words = [name for name in READERS if name.isalpha() and name not in ("DESC", "FROM", "VALUES")]
        close = nearest(first.text, words, limit=1)
        raise make(
            "SYNTAX_ERROR",
            message=f"no statement begins with {first.text}",
            hint=f"did you mean {close[0]}?" if close else f"statements begin with {', '.join(sorted(words))}",
            span=span_of_token(first),
            text=text,
        )
    return reader
