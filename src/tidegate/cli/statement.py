"""Where statements end, in a text that may be incomplete."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECES = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<quoted> '(?:[^'\\]|\\.|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
  | (?P<open> /\* | ' | " | ` )
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)


def complete(text: str) -> bool:
    """True if Enter should run the text: it is empty, a `\\` command, or ends with `;` and comments."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\"):
        return True
    ends, closed = _ends(stripped)
    return closed and bool(ends) and not without_comments(stripped[ends[-1] :]).strip()


def pieces(text: str) -> Iterator[str]:
    """The statements of a script, and the `\\` commands on lines of their own between them."""
    rest = text
    while rest.strip():
        rest = rest.lstrip()
        if rest.startswith("\\"):
            command, _, rest = rest.partition("\n")
            yield command
            continue
        ends, _ = _ends(rest)
        end = ends[0] if ends else len(rest)
        yield rest[:end]
        rest = rest[end:]


def without_comments(text: str) -> str:
    """The text with each comment replaced by a blank."""
    return _PIECES.sub(lambda match: " " if match.lastgroup == "comment" else match.group(), text)


def _ends(text: str) -> tuple[list[int], bool]:
    """The positions after each `;` that ends a statement, and True if all quotes and comments are closed."""
    ends: list[int] = []
    for match in _PIECES.finditer(text):
        if match.lastgroup == "open":
            return ends, False
        if match.lastgroup == "end":
            ends.append(match.end())
    return ends, True
