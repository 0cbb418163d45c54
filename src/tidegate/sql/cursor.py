"""A place in the tokens of one statement, and what can be read there: words, names, numbers, the text between."""

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
    """sqlglot's parser gave up: what it said, and the token it stood at (None at the end of the statement)."""

    def __init__(self, description: str, token: Token | None) -> None:
        super().__init__(description)
        self.description = description
        self.token = token


def word(token: Token | None) -> str:
    """A token's text in capitals; a string or a quoted name is no word."""
    return "" if token is None or token.token_type in QUOTED else token.text.upper()


def span_of_token(token: Token) -> Span:
    return Span(token.start, token.end + 1)


class Cursor(SparkParser):
    """sqlglot's parser standing at a token, with the few moves that statements of ours need."""

    def open(self, tokens: list[Token], text: str) -> None:
        """Goes to the first of a statement's tokens."""
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
        place = self._index + distance
        return self._tokens[place] if 0 <= place < self._tokens_size else None

    def at(self, *words: str) -> bool:
        """True if these words come next."""
        return all(word(self.peek(i)) == w for i, w in enumerate(words))

    def take(self, *words: str) -> bool:
        """Goes past these words if they come next."""
        found = self.at(*words)
        if found:
            self._advance(len(words))
        return found

    def take_any(self, *words: str) -> str | None:
        """Goes past whichever of these words comes next."""
        found = word(self.here)
        if found not in words:
            return None
        self._advance()
        return found

    def expect(self, *words: str, after: str, hint: str | None = None) -> None:
        if not self.take(*words):
            self.refuse(f"{after} must be followed by {' '.join(words)}{self.instead()}", hint=hint)

    def instead(self) -> str:
        """`, not X`: what stands here in place of what was expected."""
        return f", not {self.here.text}" if self.here is not None else ""

    def guess(self, *words: str) -> str | None:
        """Which of these words the next token may be a slip of."""
        close = nearest(self.here.text, words, limit=1) if self.here is not None else ()
        return f"did you mean {close[0]}?" if close else None

    def refuse(self, message: str, *, hint: str | None = None, span: Span | None = None) -> Never:
        """A syntax error at the next token, or just behind the last one when there is none."""
        raise make("SYNTAX_ERROR", message=message, hint=hint, span=span or self.place(), text=self.sql)

    def place(self) -> Span:
        if self.here is not None:
            return span_of_token(self.here)
        end = self._tokens[-1].end + 1 if self._tokens else 0
        return Span(end, end + 1)

    def since(self, start: Token) -> Span:
        """From a token to the one just read."""
        return Span(start.start, max(self._prev.end, start.end) + 1)

    def begun(self) -> Token:
        """Goes past the first word of a statement, which is known already."""
        start = self.start_token()
        self._advance()
        return start

    def ended(self, start: Token) -> tuple[str, Span]:
        """The text and place of a statement that has just been read."""
        span = self.since(start)
        return self.sql[span.start : span.end], span

    def start_token(self) -> Token:
        return self.here or self._tokens[-1]

    def name(self, what: str) -> Name:
        """A name of one part: any word, or one in backticks."""
        token = self.here
        if token is None or token.token_type in self.RESERVED_TOKENS or token.token_type in _NO_NAMES:
            self.refuse(f"expected {what}{self.instead()}")
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
            self.refuse(f"expected {what}{self.instead()}")
        self._advance()
        return int(token.text)

    def value(self, what: str) -> exp.Expr:
        """Any expression."""
        found = self._parse_assignment()
        if found is None:
            self.refuse(f"expected {what}{self.instead()}")
        return found

    def marked(self, node: E | None, start: Token) -> E | None:
        """Notes where a node was read, from `start` to here."""
        if isinstance(node, exp.Expr):
            mark(node, start.start, max(self._prev.end, start.end) + 1)
        return node

    def raise_error(self, message: str, token: Token = _NONE) -> None:
        raise Unreadable(message, token or self.here)
