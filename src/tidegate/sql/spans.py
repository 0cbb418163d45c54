"""Where a part of a query stands in the text.

sqlglot notes the place of identifiers, literals and function names; grammar.py adds the closing end of calls, CASE,
intervals and parentheses (`until`). The place of anything else is the hull of what it contains.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Span

START, END, UNTIL = "start", "end", "until"


def span_of(node: exp.Expr) -> Span | None:
    """The stretch of text that a node came from; None for what was never written (an implied alias, a default)."""
    found: Span | None = None
    for part in node.walk():
        own = _own_span(part)
        if own is not None:
            found = own if found is None else found.hull(own)
    return found


def name_span(node: exp.Expr) -> Span | None:
    """The name of a function call, without its arguments; elsewhere the whole."""
    meta = node.meta
    return Span(meta[START], meta[END] + 1) if START in meta else span_of(node)


def mark(node: exp.Expr, start: int, until: int) -> None:
    """Notes that `node` was read from text[start:until], without moving a place that is known more exactly."""
    meta = node.meta
    if START not in meta:
        meta[START], meta[END] = start, until - 1
    meta[UNTIL] = max(until, meta.get(UNTIL, 0))


def shift(node: exp.Expr, by: int) -> None:
    """Moves all places in a tree that was read from a text of its own."""
    for part in node.walk():
        for key in (START, END, UNTIL):
            if key in part.meta:
                part.meta[key] += by


def _own_span(node: exp.Expr) -> Span | None:
    meta = node.meta
    if meta.get(START) is None:
        return None
    return Span(meta[START], meta.get(UNTIL, meta[END] + 1))
