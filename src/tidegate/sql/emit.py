"""EMIT <strategy>: when a view emits its results."""

from __future__ import annotations

from typing import Never

from sqlglot.tokenizer_core import Token

from tidegate.sql.cursor import Cursor, word
from tidegate.sql.durations import read_duration
from tidegate.sql.statements import Emit

STRATEGIES: dict[tuple[str, ...], str] = {
    ("ON", "WATERMARK"): "on_watermark",
    ("AFTER", "WATERMARK"): "on_watermark",
    ("ON", "UPDATE"): "on_update",
    ("ON", "WINDOW", "CLOSE"): "on_window_close",
    ("AFTER", "WINDOW", "CLOSE"): "on_window_close",
    ("EVERY",): "every",
    ("PERIODICALLY",): "every",
    ("CHANGES",): "changes",
    ("FINAL",): "final",
}
USAGE = "write EMIT ON WATERMARK, ON UPDATE, EVERY INTERVAL '10' SECOND, ON WINDOW CLOSE, CHANGES or FINAL"

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
            interval = read_duration(cursor, f"EMIT {words[0]}") if strategy == "every" else None
            return Emit(strategy, interval, cursor.since(start))
    _fail(cursor, start)


def _names_a_moment(cursor: Cursor) -> bool:
    """`EMIT ON UPDATE` ends there; in `JOIN u emit ON update = ...` a condition goes on."""
    moment, after = word(cursor.peek(2)), word(cursor.peek(3))
    if moment == "WINDOW":
        return after in ("CLOSE", "")
    return moment in ("WATERMARK", "UPDATE") and (after in ("", ")") or after in _AFTER_ALIAS)


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
    if cursor.take("WINDOW"):
        cursor.fail(
            f"EMIT {first} WINDOW must be followed by CLOSE",
            hint=f"write EMIT {first} WINDOW CLOSE",
            span=cursor.since(start),
        )
    moments = "WATERMARK, UPDATE or WINDOW CLOSE" if first == "ON" else "WATERMARK or WINDOW CLOSE"
    instead = cursor.instead()
    if cursor.here is not None:
        cursor._advance()
    cursor.fail(f"EMIT {first} must be followed by {moments}{instead}", hint=USAGE, span=cursor.since(start))
