"""The errors that Tidegate raises on purpose.

Error                   root; `.code .message .detail .hint .span .text`
├── SqlError            a statement cannot be read or cannot mean anything
│   └── SqlSyntaxError  ... because the text is not a statement
├── CatalogError        a name that exists already, or that others depend on
├── OptionError         WITH (...) and connector options
├── InputError          rows that a relation rejects
├── PipelineError       a data folder or a running pipeline in the wrong state
└── SetupError          Java, Spark, connector jars
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors.masking import Shown, mask_broken
from tidegate.errors.secrets import hide_known

SHORTEST_TOKEN = 3
"""Shorter tokens are not searched in messages."""


@dataclass(frozen=True, order=True)
class Span:
    """A stretch of a text: character offsets, `end` is one past the last character."""

    start: int
    end: int

    def hull(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


def printable(text: str) -> str:
    """The text with halves of characters (lone surrogates) as escapes: no stream takes them as they are."""
    return text.encode("utf-8", "backslashreplace").decode()


class Error(Exception):
    """The problem (`message`), its reason (`detail`), what to write instead (`hint`), and where it is (`span`)."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        span: Span | None = None,
        text: str | None = None,
    ) -> None:
        self.code = code
        self.message = hide_known(printable(message))
        self.detail = None if detail is None else hide_known(printable(detail))
        self.hint = None if hint is None else printable(hint)
        self.span = span
        self._text: str | None = None
        self.text = text
        super().__init__(self.message)
        self.near: tuple[str, ...] = ()
        """Without a span: SQL that the error is about, most exact first, to look for in the statement."""

    @property
    def text(self) -> str | None:
        """The SQL that the span points into, its secrets starred out."""
        return self._text

    @text.setter
    def text(self, text: str | None) -> None:
        if text is None:
            self._text = None
            return
        self._text, hidden = (text, text.hidden) if isinstance(text, Shown) else mask_broken(text)
        for secret in sorted(hidden, key=len, reverse=True):
            self._hide(secret)

    def _hide(self, secret: str) -> None:
        """Star out a secret in the message, the detail and the hint: they may repeat tokens of the text."""
        unescaped = re.sub(r"\\(.)|(['\"])\2", r"\1\2", secret, flags=re.DOTALL)
        for spelling in (secret, unescaped):
            if len(spelling) < SHORTEST_TOKEN:
                continue
            word = re.compile(rf"(?<!\w){re.escape(spelling)}(?!\w)", re.IGNORECASE)
            self.message = word.sub("***", self.message)
            self.detail = self.detail and word.sub("***", self.detail)
            self.hint = self.hint and word.sub("***", self.hint)
        self.args = (self.message,)

    def __str__(self) -> str:
        from tidegate.errors.rendering import render

        return render(self)

    def in_text(self, text: str) -> Error:
        """Set the SQL that the span points into, unless it is set."""
        if self.text is None:
            self.text = text
        return self


class SqlError(Error):
    """A statement that cannot be read or cannot mean anything."""


class SqlSyntaxError(SqlError):
    """Text that is not a statement."""


class CatalogError(Error):
    """A name that exists already, does not exist, or is needed by others."""


class OptionError(Error):
    """An option that is unknown, missing or has a value it cannot have."""


class InputError(Error):
    """Rows that a relation rejects."""


class PipelineError(Error):
    """A data folder or a running pipeline in the wrong state."""


class SetupError(Error):
    """Something outside of Tidegate is missing or of the wrong version."""


@dataclass(frozen=True)
class Warning_:
    """A statement that is accepted but probably does not do what its author means."""

    code: str
    message: str
    hint: str | None = None
    span: Span | None = None
