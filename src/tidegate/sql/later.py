"""What a query says about time windows and joins by time, each with its place, for whoever cannot do it yet."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.errors import Span
from tidegate.sql.clauses import clauses
from tidegate.sql.functions import call
from tidegate.sql.grammar import WITHIN
from tidegate.sql.spans import span_of
from tidegate.sql.windows import GROUP_WINDOWS, window_function

EARLY_FIRE = "early_fire"


def later_clauses(query: exp.Expr) -> list[tuple[str, Span | None]]:
    """Window clauses and functions, EVENT TIME BY, WITHIN, FOR SYSTEM_TIME and EARLY_FIRE anywhere in a query: what it
    is, and where. EMIT, ALLOWED LATENESS and LATE DATA TO are in the `Query` itself."""
    return [found for node in query.walk() for found in _said_at(node)]


def _said_at(node: exp.Expr) -> Iterator[tuple[str, Span | None]]:
    said = clauses(node)
    if said.window is not None:
        yield f"a {said.window.kind} window", said.window.span
    if said.event_time is not None:
        yield "EVENT TIME BY", said.span("event_time")
    if isinstance(node, exp.Join) and WITHIN in node.meta:
        yield "JOIN ... WITHIN", span_of(node)
    if isinstance(node, exp.Version):
        yield "FOR SYSTEM_TIME AS OF", span_of(node)
    if isinstance(node, exp.Anonymous):
        yield from _window_call(node)


def _window_call(node: exp.Anonymous) -> Iterator[tuple[str, Span | None]]:
    found = call(node)
    assert found is not None
    if (isinstance(node.parent, exp.Table) and window_function(node)) or (found.name in GROUP_WINDOWS and found.args):
        yield f"window {found.name.upper()}(...)", span_of(node)
    elif isinstance(node.parent, exp.Hint) and found.name == EARLY_FIRE:
        yield "hint EARLY_FIRE", span_of(node)


def hints(query: exp.Expr) -> list[tuple[str, dict[str, str], Span | None]]:
    """The hints of a SELECT: name, options, place. A positional argument has its number as option name."""
    hint = query.args.get("hint")
    return [_hint(node) for node in hint.expressions] if isinstance(hint, exp.Hint) else []


def _hint(node: exp.Expr) -> tuple[str, dict[str, str], Span | None]:
    found = call(node)
    if found is None:
        return node.name.lower(), {}, span_of(node)
    options = {
        (arg.this.name if isinstance(arg, exp.EQ) else str(number)): (
            arg.expression.name if isinstance(arg, exp.EQ) else arg.name
        )
        for number, arg in enumerate(found.args)
    }
    return found.name, options, span_of(node)
