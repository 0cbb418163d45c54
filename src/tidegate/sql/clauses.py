"""The clauses that are ours at the end of a SELECT: EMIT, ALLOWED LATENESS, LATE DATA TO, AS OF STEP, and the windows
of pgcdc (`TUMBLING WINDOW 5m`, `EVENT TIME BY path`) and ksqlDB (`WINDOW TUMBLING (SIZE 1 MINUTE)`).

sqlglot has no node for them, so they are stored in the meta of the SELECT; `clauses(select)` returns them. None of
their words is reserved: each clause is recognised by the words that follow, so `FROM bids emit` is still an alias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.errors import Span, nearest
from tidegate.sql.cursor import Cursor, word
from tidegate.sql.durations import read_duration
from tidegate.sql.emit import emit_ahead, read_emit
from tidegate.sql.spans import mark
from tidegate.sql.statements import Emit, Name

META = "tidegate_clauses"
_PGCDC_WINDOWS = ("TUMBLING", "SLIDING", "SESSION")


@dataclass(frozen=True)
class WindowClause:
    """A window written as a clause. `kind`: tumbling, sliding, session."""

    kind: str
    size: exp.Expr
    slide: exp.Expr | None
    span: Span


@dataclass(frozen=True)
class Clauses:
    """The values of our clauses in one SELECT."""

    emit: Emit | None = None
    allowed_lateness: exp.Expr | None = None
    late_data_to: Name | None = None
    as_of_step: int | None = None
    window: WindowClause | None = None
    event_time: exp.Expr | None = None
    spans: tuple[tuple[str, Span], ...] = ()

    def span(self, clause: str) -> Span | None:
        return dict(self.spans).get(clause)


NO_CLAUSES = Clauses()


def clauses(node: exp.Expr) -> Clauses:
    """Our clauses of a SELECT, a set operation or a parenthesised query; empty if it has none."""
    own = node.meta.get(META, NO_CLAUSES)
    assert isinstance(own, Clauses)
    return own


def clause_ahead(cursor: Cursor) -> bool:
    """True if one of our clauses begins here, where an alias could follow too."""
    return emit_ahead(cursor) or _matching(cursor) is not None or within_ahead(cursor)


def within_ahead(cursor: Cursor) -> bool:
    """True for `WITHIN 5m`, `WITHIN INTERVAL ...`, `WITHIN (1 HOUR, ...)` of a join; a bare `within` is a name."""
    following = cursor.peek(1)
    return cursor.at("WITHIN") and (_is_duration_start(following) or word(following) == "(")


def read_clause(cursor: Cursor, node: exp.Expr) -> bool:
    """Read one of our clauses into the node's meta, if one comes next."""
    start = cursor.start_token()
    present = clauses(node)
    if cursor.at("EMIT"):
        label, after = "EMIT", replace(present, emit=read_emit(cursor))
    elif (matching := _matching(cursor)) is not None:
        words, read = matching
        label, after = " ".join(words), read(cursor, present)
    else:
        return False
    _record(cursor, node, present, after, label, start)
    return True


def _record(cursor: Cursor, node: exp.Expr, before: Clauses, after: Clauses, label: str, start: Token) -> None:
    changed = [f.name for f in fields(Clauses) if getattr(before, f.name) is not getattr(after, f.name)]
    span = cursor.since(start)
    if any(getattr(before, name) is not None for name in changed):
        cursor.fail(f"{label} is given twice", span=span)
    node.meta[META] = replace(after, spans=(*before.spans, *((name, span) for name in changed)))


def _allowed_lateness(cursor: Cursor, present: Clauses) -> Clauses:
    cursor._advance(2)
    return replace(present, allowed_lateness=read_duration(cursor, "ALLOWED LATENESS"))


def _late_data(cursor: Cursor, present: Clauses) -> Clauses:
    cursor._advance(2)
    cursor.expect("TO", after="LATE DATA")
    return replace(present, late_data_to=cursor.name("the table that takes late rows"))


def _as_of_step(cursor: Cursor, present: Clauses) -> Clauses:
    cursor._advance(3)
    return replace(present, as_of_step=cursor.integer("a step number after AS OF STEP"))


def _event_time(cursor: Cursor, present: Clauses) -> Clauses:
    cursor._advance(3)
    path = None if clause_ahead(cursor) else cursor._parse_column()
    if path is None:
        hint = "write where events have their time: EVENT TIME BY payload.row.created"
        cursor.fail(f"EVENT TIME BY must be followed by a column or path{cursor.instead()}", hint=hint)
    return replace(present, event_time=path)


def _pgcdc_window(cursor: Cursor, present: Clauses) -> Clauses:
    start = cursor.start_token()
    kind = word(start).lower()
    cursor._advance(2)
    size = _length(cursor, f"{kind.upper()} WINDOW")
    slide = None
    if kind == "sliding":
        cursor.expect("SLIDE", after="SLIDING WINDOW size", hint="write SLIDING WINDOW 1h SLIDE 5m")
        slide = _length(cursor, "SLIDE")
    return replace(present, window=WindowClause(kind, size, slide, cursor.since(start)))


def _length(cursor: Cursor, after: str) -> exp.Expr:
    """A duration with its sign; that a size must be positive is checked later."""
    start = cursor.start_token()
    if not cursor.take("-"):
        return read_duration(cursor, after)
    negative = exp.Neg(this=read_duration(cursor, after))
    span = cursor.since(start)
    mark(negative, span.start, span.end)
    return negative


def _unknown_window(cursor: Cursor, present: Clauses) -> Clauses:
    """`HOPPING WINDOW 5m` can only be a window clause with an unknown word."""
    close = nearest(word(cursor.here), _PGCDC_WINDOWS, limit=1)
    guess = f"did you mean {close[0]} WINDOW? " if close else ""
    cursor.fail(
        f"there is no {word(cursor.here)} WINDOW",
        hint=f"{guess}windows are TUMBLING WINDOW 5m, SLIDING WINDOW 1h SLIDE 5m and SESSION WINDOW 30m",
    )


def _without_window(cursor: Cursor, present: Clauses) -> Clauses:
    """`TUMBLING 5m`"""
    kind, size = word(cursor.here), cursor.peek(1)
    assert size is not None
    cursor.fail(f"{kind} must be followed by WINDOW, not {size.text}", hint=f"write {kind} WINDOW {size.text}")


def _ksql_window(cursor: Cursor, present: Clauses) -> Clauses:
    start = cursor.start_token()
    kind = word(cursor.peek(1))
    cursor._advance(3)
    size = slide = None
    if kind == "SESSION":
        size = read_duration(cursor, "WINDOW SESSION (")
    else:
        cursor.expect("SIZE", after=f"WINDOW {kind} (")
        size = read_duration(cursor, "SIZE")
    if kind == "HOPPING":
        cursor.expect(",", "ADVANCE", "BY", after="the SIZE of a HOPPING window")
        slide = read_duration(cursor, "ADVANCE BY")
    lateness = present.allowed_lateness
    # How long ksqlDB keeps closed windows to be queried; ours are the content of a view.
    if cursor.take(",", "RETENTION"):
        read_duration(cursor, "RETENTION")
    if cursor.take(",", "GRACE", "PERIOD"):
        lateness = read_duration(cursor, "GRACE PERIOD")
    cursor.expect(")", after="the window")
    name = {"HOPPING": "sliding"}.get(kind, kind.lower())
    window = WindowClause(name, size, slide, cursor.since(start))
    return replace(present, window=window, allowed_lateness=lateness)


def _is_duration_start(token: Token | None) -> bool:
    return token is not None and (
        word(token) == "INTERVAL" or token.text[:1].isdigit() or token.token_type == TokenType.STRING
    )


Reader = Callable[[Cursor, Clauses], Clauses]

_BY_WORDS: tuple[tuple[tuple[str, ...], Reader, bool], ...] = (
    (("ALLOWED", "LATENESS"), _allowed_lateness, False),
    (("ALLOW", "LATENESS"), _allowed_lateness, False),
    (("LATE", "DATA", "TO"), _late_data, False),
    (("AS", "OF", "STEP"), _as_of_step, False),
    (("EVENT", "TIME", "BY"), _event_time, False),
    (("TUMBLING", "WINDOW"), _pgcdc_window, True),
    (("SLIDING", "WINDOW"), _pgcdc_window, True),
    (("SESSION", "WINDOW"), _pgcdc_window, True),
    (("WINDOW", "TUMBLING", "("), _ksql_window, False),
    (("WINDOW", "HOPPING", "("), _ksql_window, False),
    (("WINDOW", "SESSION", "("), _ksql_window, False),
)


def _matching(cursor: Cursor) -> tuple[tuple[str, ...], Reader] | None:
    """The clause whose words come next. `session WINDOW w AS (...)` is an alias before a named window."""
    for words, read, duration_follows in _BY_WORDS:
        if cursor.at(*words) and not (duration_follows and word(cursor.peek(len(words) + 1)) == "AS"):
            return words, read
    if word(cursor.peek(1)) == "WINDOW" and word(cursor.here) and _is_duration_start(cursor.peek(2)):
        return (word(cursor.here), "WINDOW"), _unknown_window
    if word(cursor.here) in _PGCDC_WINDOWS and _is_duration_start(cursor.peek(1)):
        return (word(cursor.here),), _without_window
    return None
