"""Where a statement ends, in text that is still being typed."""

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
    """Enter sends it: nothing, a `\\` command, or text whose last `;` has nothing but comments behind it."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\"):
        return True
    ends, closed = _ends(stripped)
    return closed and bool(ends) and not without_comments(stripped[ends[-1] :]).strip()


def pieces(text: str) -> Iterator[str]:
    """The statements of a script, and the `\\` commands that stand on lines of their own between them."""
    rest = text
    while rest.strip():
        rest = rest.lstrip()
        if rest.startswith("\\"):
            command, _, rest = rest.partition("\n")
            yield command
            continue
        ends, _ = _ends(rest)
        cut = ends[0] if ends else len(rest)
        yield rest[:cut]
        rest = rest[cut:]


def without_comments(text: str) -> str:
    """The text with each comment replaced by a blank."""
    return _PIECES.sub(lambda found: " " if found.lastgroup == "comment" else found.group(), text)


def _ends(text: str) -> tuple[list[int], bool]:
    """The places just behind each `;` that ends a statement, and whether all quotes and comments are closed."""
    ends: list[int] = []
    for found in _PIECES.finditer(text):
        if found.lastgroup == "open":
            return ends, False
        if found.lastgroup == "end":
            ends.append(found.end())
    return ends, True
