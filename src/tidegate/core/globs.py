"""Patterns such as `pgcdc:orders*`, matched in one pass over the text: `*` is any text, `?` one character.

Patterns come from requests of strangers, so no pattern may take longer than any other of its length. All of them are
one automaton, whose states are the bits of a number: a character of the text is two operations on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

LONGEST = 1000
"""The number of characters that the patterns of a request have together."""

REMEMBERED = 1000


class Globs:
    """Several patterns; a text matches them if it matches one, as a whole."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._start = self._end = self._loops = self._any = 0
        self._exact: dict[str, int] = {}
        first = 1
        for pattern in patterns:
            first = self._add(pattern, first)
        self.matches = lru_cache(REMEMBERED)(self._matches)

    def _add(self, pattern: str, state: int) -> int:
        """Add a pattern whose states begin with the bit `state`; the first bit that is free after it."""
        self._start |= state
        for sign in pattern:
            if sign == "*":
                self._loops |= state
                continue
            if sign == "?":
                self._any |= state
            else:
                self._exact[sign] = self._exact.get(sign, 0) | state
            state <<= 1
        self._end |= state
        return state << 1

    def _matches(self, text: str) -> bool:
        states = self._start
        for sign in text:
            states = ((states & (self._exact.get(sign, 0) | self._any)) << 1) | (states & self._loops)
            if not states:
                return False
        return bool(states & self._end)


def split_patterns(text: str) -> Sequence[str]:
    """`pgcdc:orders*, hooks` -> `pgcdc:orders*` and `hooks`. Raises ValueError if they are too long."""
    if len(text) > LONGEST:
        raise ValueError(text)
    return [part.strip() for part in text.split(",") if part.strip()]
