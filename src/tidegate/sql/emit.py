"""EMIT <strategy>: when a view emits its results."""

from __future__ import annotations

from typing import Never

from sqlglot.tokenizer_core import Token

from tidegate.errors import enumerated
from tidegate.sql.cursor import Cursor, word
from tidegate.sql.durations import read_duration
from tidegate.sql.statements import Emit

STRATEGIES: dict[tuple[str, ...], str] = {
    ("ON", "WATERMARK"): "on_watermark",
    ("AFTER", "WATERMARK"): "on_watermark",
    ("ON", "UPDATE"): "on_update",
    ("EVERY",): "every",
    ("PERIODICALLY",): "every",
    ("ON", "WINDOW", "CLOSE"): "on_window_close",
    ("AFTER", "WINDOW", "CLOSE"): "on_window_close",
    ("CHANGES",): "changes",
    ("FINAL",): "final",
}
"""The strategy that each spelling names; error texts show the first spelling of each."""
INTERVALS = {"every": "INTERVAL '10' SECOND"}
"""Strategies with an interval after their words, and an example of it."""


def _usage() -> str:
    first = {strategy: words for words, strategy in reversed(STRATEGIES.items())}
    spellings = [
        " ".join((*first[name], *INTERVALS.get(name, "").split())) for name in dict.fromkeys(STRATEGIES.values())
    ]
    return f"write EMIT {enumerated(spellings)}"


USAGE = _usage()

# What may follow an alias called emit.
_CLAUSE_STARTS = """
    AS JOIN INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI NATURAL LATERAL WHERE HAVING LIMIT OFFSET FETCH UNION
    EXCEPT MINUS INTERSECT USING WINDOW QUALIFY TABLESAMPLE PIVOT UNPIVOT FOR FROM INTO WITH EMIT WITHIN ALLOWED
    ALLOW LATE EVENT TUMBLING SLIDING SESSION FORMAT SET VALUES
"""
_AFTER_ALIAS = frozenset(_CLAUSE_STARTS.split()) | {"GROUP BY", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"}


def emit_ahead(cursor: Cursor) -> bool:
    """True if EMIT is the clause and not an alias: `FROM t EMIT CHANGES`, but `FROM t emit JOIN u`."""
    if not cursor.at("EMIT"):
        return False
    following = word(cursor.peek(1))
    if following == "ON":
        return _names_a_moment(cursor)
    return following[:1].isalpha() and following not in _AFTER_ALIAS


def read_emit(cursor: Cursor) -> Emit:
    """The strategy after EMIT, with its interval."""
    start = cursor.start_token()
    cursor._advance()
    for words, strategy in STRATEGIES.items():
        if cursor.take(*words):
            interval = read_duration(cursor, f"EMIT {words[0]}") if strategy in INTERVALS else None
            return Emit(strategy, interval, cursor.since(start))
    _fail(cursor, start)


def _names_a_moment(cursor: Cursor) -> bool:
    """`EMIT ON UPDATE` ends there; in `JOIN u emit ON update = ...` a condition goes on."""
    first, after = word(cursor.peek(2)), word(cursor.peek(3))
    return any(after in (*rest[:1], "") if rest else _ends(after) for start, *rest in _moments("ON") if start == first)


def _ends(after: str) -> bool:
    """True if the word after EMIT ON UPDATE does not go on with a condition."""
    return after in ("", ")") or after in _AFTER_ALIAS


def _moments(first: str) -> list[tuple[str, ...]]:
    """What may follow EMIT ON, or EMIT AFTER."""
    return [words[1:] for words in STRATEGIES if words[0] == first]


def _fail(cursor: Cursor, start: Token) -> Never:
    first = word(cursor.here)
    if first in ("ON", "AFTER"):
        cursor._advance()
        _fail_moment(cursor, start, first)
    if cursor.here is None:
        cursor.fail("EMIT must be followed by a strategy", hint=USAGE, span=cursor.since(start))
    cursor._advance()
    cursor.fail(f"EMIT cannot be followed by {first}", hint=USAGE, span=cursor.since(start))


def _fail_moment(cursor: Cursor, start: Token, first: str) -> Never:
    for begin, *rest in _moments(first):
        if rest and cursor.take(begin):
            cursor.fail(
                f"EMIT {first} {begin} must be followed by {' '.join(rest)}",
                hint=f"write EMIT {first} {begin} {' '.join(rest)}",
                span=cursor.since(start),
            )
    moments = enumerated([" ".join(moment) for moment in _moments(first)])
    instead = cursor.instead()
    if cursor.here is not None:
        cursor._advance()
    cursor.fail(f"EMIT {first} must be followed by {moments}{instead}", hint=USAGE, span=cursor.since(start))
