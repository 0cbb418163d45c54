"""Text -> statements: tokens, one list per statement, then the reader for its first word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Error, Span, make, nearest, too_deep
from tidegate.sql import commands
from tidegate.sql.create import read_create
from tidegate.sql.cursor import Unreadable, span_of_token, word
from tidegate.sql.dialect import Tidegate
from tidegate.sql.grammar import Parser
from tidegate.sql.statements import Script, Statement
from tidegate.sql.syntax import check_gaps, explain_error, unexpected_token

_CLOSED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
KSQL_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")


def statements(text: str) -> Iterator[list[Token]]:
    """The tokens of each statement, without semicolons."""
    current: list[Token] = []
    for token in _tokens(text):
        if token.token_type != TokenType.SEMICOLON:
            current.append(token)
        elif current:
            yield _arrange(current)
            current = []
    if current:
        yield _arrange(current)


def _tokens(text: str) -> list[Token]:
    try:
        tokens = Tidegate().tokenize(text)
    except TokenError as error:
        raise _unterminated_error(text, error) from None
    _check_comments(text, tokens[-1].end + 1 if tokens else 0)
    return tokens


def _unterminated_error(text: str, error: TokenError) -> Exception:
    reason = str(error.__cause__ or error)
    if match := re.search(r"Numeric string contains invalid characters from \d+:(\d+)", reason):
        return _bad_digits(text, int(match[1]))
    match = re.search(r"Missing (.+) from \d+:(\d+)", reason, re.DOTALL)
    if match is None:
        _check_comments(text, 0)
        span = Span(0, len(text))
        return make("SYNTAX_ERROR", message="this text cannot be read as SQL", span=span, text=text)
    start = min(int(match[2]), max(len(text) - 1, 0))
    what = "name" if match[1] == "`" else "string"
    return make(
        "SYNTAX_ERROR",
        message=f"this {what} is never closed",
        hint=f"add the closing {match[1]}",
        span=Span(start, len(text)),
        text=text,
    )


def _bad_digits(text: str, start: int) -> Exception:
    literal = re.compile(r"\w+'[^']*'?").match(text, start)
    return make(
        "SYNTAX_ERROR",
        message="this literal has characters that are no digits",
        hint="X'1F' takes the digits 0-9 and A-F, B'01' takes 0 and 1",
        span=Span(start, literal.end() if literal else start + 1),
        text=text,
    )


def _check_comments(text: str, start: int) -> None:
    """Reject a comment that is never closed: it would hide all that follows."""
    tail = re.sub(_CLOSED, lambda m: " " * len(m[0]), text[start:])
    opened = tail.find("/*")
    if opened >= 0:
        raise make(
            "SYNTAX_ERROR",
            message="this comment is never closed",
            hint="add the closing */",
            span=Span(start + opened, len(text)),
            text=text,
        )


def _arrange(tokens: list[Token]) -> list[Token]:
    return _free_windows(_names_after_dots(_hints_to_select(tokens)))


def _names_after_dots(tokens: list[Token]) -> list[Token]:
    """Make every word after a dot a name: `payload.row.from`, `payload.order`."""
    for before, token in pairwise(tokens):
        word = token.text.isidentifier() and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        if before.token_type == TokenType.DOT and word:
            token.token_type = TokenType.VAR
    return tokens


def _hints_to_select(tokens: list[Token]) -> list[Token]:
    """`SELECT a /*+ H */ FROM t` -> `SELECT /*+ H */ a FROM t`: a hint belongs to the SELECT around it."""
    arranged: list[Token] = []
    selects: list[int | None] = [None]
    for token in tokens:
        if token.token_type == TokenType.HINT:
            select = selects[-1]
            if select is not None:
                arranged.insert(select + 1, token)
            continue
        if token.token_type == TokenType.L_PAREN:
            selects.append(None)
        elif token.token_type == TokenType.R_PAREN and len(selects) > 1:
            selects.pop()
        elif token.token_type == TokenType.SELECT:
            selects[-1] = len(arranged)
        arranged.append(token)
    return arranged


def _free_windows(tokens: list[Token]) -> list[Token]:
    """Make the WINDOW of `WINDOW TUMBLING (` and of the function `window(ts, ...)` an ordinary word: sqlglot would take
    it for the start of a named window."""
    for token, *following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        ksql = following[0].text.upper() in KSQL_WINDOWS and following[1].token_type == TokenType.L_PAREN
        if token.token_type == TokenType.WINDOW and (ksql or following[0].token_type == TokenType.L_PAREN):
            token.token_type = TokenType.VAR
    return tokens


Reader = Callable[[Parser], Statement]

READERS: dict[str, Reader] = {
    "ADVANCE": commands.read_advance,
    "CREATE": read_create,
    "DELETE": commands.read_delete,
    "DESC": commands.read_describe,
    "DESCRIBE": commands.read_describe,
    "DROP": commands.read_drop,
    "EXPLAIN": commands.read_explain,
    "FROM": commands.read_select,
    "INSERT": commands.read_insert,
    "LATENESS": commands.read_lateness,
    "REFRESH": commands.read_refresh,
    "SELECT": commands.read_select,
    "SET": commands.read_set,
    "SHOW": commands.read_show,
    "SUBSCRIBE": commands.read_subscribe,
    "UPDATE": commands.read_update,
    "VALUES": commands.read_select,
    "WITH": commands.read_select,
    "(": commands.read_select,
}


def parse(text: str) -> Script:
    """All statements of a text. Spans in them, and in errors, are offsets into this text."""
    return Script(text, tuple(_statement(tokens, text) for tokens in statements(text)))


@lru_cache(maxsize=4096)
def parse_definition(text: str) -> Statement:
    """The one statement of a text. It is cached: copy its trees before changing them."""
    (statement,) = parse(text).statements
    return statement


def _statement(tokens: list[Token], text: str) -> Statement:
    parser = Tidegate().parser()
    assert isinstance(parser, Parser)
    parser.open(tokens, text)
    try:
        statement = _reader(tokens[0], text)(parser)
    except Unreadable as error:
        raise explain_error(parser, error) from None
    except ParseError as error:
        raise explain_error(parser, Unreadable(str(error), parser.here)) from None
    except Error as error:
        raise error.in_text(text) from None
    except RecursionError:
        raise too_deep(text, span_of_token(tokens[0]).hull(span_of_token(tokens[-1]))) from None
    if parser.here is not None:
        raise unexpected_token(parser)
    check_gaps(tokens, text)
    return statement


def _reader(first: Token, text: str) -> Reader:
    """The reader for the first word of a statement."""
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
