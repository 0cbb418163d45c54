"""A cursor over the tokens of one statement that reads words, names and numbers."""

from __future__ import annotations

from typing import Never, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Span, make, nearest
from tidegate.sql.spans import mark
from tidegate.sql.statements import Name

QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING, TokenType.NATIONAL_STRING})
_NO_NAMES = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER})
_NONE = Token(TokenType.SENTINEL, "")

E = TypeVar("E", bound=exp.Expr)


class Unreadable(ParseError):
    """An error of sqlglot's parser: its description, and the token it was at (None at the end of the statement)."""

    def __init__(self, description: str, token: Token | None) -> None:
        super().__init__(description)
        self.description = description
        self.token = token


def word(token: Token | None) -> str:
    """A token's text in capitals; empty for a string or a quoted name."""
    return "" if token is None or token.token_type in QUOTED else token.text.upper()


def printable(text: str) -> str:
    """A text whose invisible characters are shown by their numbers: `U+200B`."""
    return "".join(each if each.isprintable() else f"U+{ord(each):04X}" for each in text)


def span_of_token(token: Token) -> Span:
    return Span(token.start, token.end + 1)


class Cursor(SparkParser):
    """sqlglot's parser at a token, with the methods that our statements need."""

    def open(self, tokens: list[Token], text: str) -> None:
        """Start at the first of a statement's tokens."""
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    @property
    def here(self) -> Token | None:
        """The token that comes next; None at the end of the statement."""
        return self.peek(0)

    def peek(self, distance: int) -> Token | None:
        index = self._index + distance
        return self._tokens[index] if 0 <= index < self._tokens_size else None

    def at(self, *words: str) -> bool:
        """True if these words come next."""
        return all(word(self.peek(i)) == w for i, w in enumerate(words))

    def take(self, *words: str) -> bool:
        """Consume these words if they come next."""
        present = self.at(*words)
        if present:
            self._advance(len(words))
        return present

    def take_any(self, *words: str) -> str | None:
        """Consume and return the next word if it is one of these."""
        following = word(self.here)
        if following not in words:
            return None
        self._advance()
        return following

    def expect(self, *words: str, after: str, hint: str | None = None) -> None:
        if not self.take(*words):
            self.fail(f"{after} must be followed by {' '.join(words)}{self.instead()}", hint=hint)

    def instead(self) -> str:
        """`, not X`: the next token, for errors about an expected one."""
        return f", not {printable(self.here.text)}" if self.here is not None else ""

    def guess(self, *words: str) -> str | None:
        """A hint with the word that the next token may be a misspelling of."""
        close = nearest(self.here.text, words, limit=1) if self.here is not None else ()
        return f"did you mean {close[0]}?" if close else None

    def fail(self, message: str, *, hint: str | None = None, span: Span | None = None) -> Never:
        """Raise a syntax error at the next token, or just after the last one at the end."""
        raise make("SYNTAX_ERROR", message=message, hint=hint, span=span or self.next_span(), text=self.sql)

    def next_span(self) -> Span:
        """The span of the next token; at the end, the character after the last one."""
        if self.here is not None:
            return span_of_token(self.here)
        end = self._tokens[-1].end + 1 if self._tokens else 0
        return Span(end, end + 1)

    def since(self, start: Token) -> Span:
        """The span from a token to the one just read."""
        return Span(start.start, max(self._prev.end, start.end) + 1)

    def begin(self) -> Token:
        """Consume and return the first token of a statement."""
        start = self.start_token()
        self._advance()
        return start

    def finish(self, start: Token) -> tuple[str, Span]:
        """The text and span of a statement that has just been read."""
        span = self.since(start)
        return self.sql[span.start : span.end], span

    def start_token(self) -> Token:
        return self.here or self._tokens[-1]

    def name(self, what: str) -> Name:
        """A name of one part: any word, or one in backticks."""
        token = self.here
        if token is None or token.token_type in self.RESERVED_TOKENS or token.token_type in _NO_NAMES:
            self.fail(f"expected {what}{self.instead()}")
        self._advance()
        return Name(token.text, span_of_token(token))

    def dotted_name(self, what: str) -> Name:
        """A name that may have several parts: `system.late_rows`."""
        name = self.name(what)
        while self.take("."):
            part = self.name(f"a name after {name.text}.")
            name = Name(f"{name.text}.{part.text}", name.span.hull(part.span))
        return name

    def names_in_parentheses(self, what: str) -> tuple[Name, ...]:
        self.expect("(", after=what)
        names = [self.name("a column")]
        while self.take(","):
            names.append(self.name("a column"))
        self.expect(")", after=", ".join(n.text for n in names))
        return tuple(names)

    def integer(self, what: str) -> int:
        token = self.here
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            self.fail(f"expected {what}{self.instead()}")
        self._advance()
        return int(token.text)

    def value(self, what: str) -> exp.Expr:
        """Any expression; `what` names it in errors."""
        expression = self._parse_assignment()
        if expression is None:
            self.fail(f"expected {what}{self.instead()}")
        return expression

    def mark_since(self, node: E | None, start: Token) -> E | None:
        """Record the span of a node, from `start` to the token just read."""
        if isinstance(node, exp.Expr):
            mark(node, start.start, max(self._prev.end, start.end) + 1)
        return node

    def raise_error(self, message: str, token: Token = _NONE) -> None:
        raise Unreadable(message, token or self.here)
