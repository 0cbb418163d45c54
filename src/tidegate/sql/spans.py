"""Spans of the nodes of a query in its text.

sqlglot records the positions of identifiers, literals and function names; grammar.py adds the end of calls, CASE,
intervals and parentheses (`until`). The span of any other node is the hull of the spans inside it.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Span

START, END, UNTIL = "start", "end", "until"


def span_of(node: exp.Expr) -> Span | None:
    """The span of a node; None for what was never written (an implied alias, a default)."""
    whole: Span | None = None
    for part in node.walk():
        own = _own_span(part)
        if own is not None:
            whole = own if whole is None else whole.hull(own)
    return whole


def name_span(node: exp.Expr) -> Span | None:
    """The span of a function's name, without its arguments; that of the whole node if it is not a call."""
    meta = node.meta
    return Span(meta[START], meta[END] + 1) if START in meta else span_of(node)


def mark(node: exp.Expr, start: int, until: int) -> None:
    """Record that `node` was read from text[start:until], unless its start is known more exactly."""
    meta = node.meta
    if START not in meta:
        meta[START], meta[END] = start, until - 1
    meta[UNTIL] = max(until, meta.get(UNTIL, 0))


def shift(node: exp.Expr, by: int) -> None:
    """Shift all spans in a tree that was parsed from a text of its own."""
    for part in node.walk():
        for key in (START, END, UNTIL):
            if key in part.meta:
                part.meta[key] += by


def _own_span(node: exp.Expr) -> Span | None:
    meta = node.meta
    if meta.get(START) is None:
        return None
    return Span(meta[START], meta.get(UNTIL, meta[END] + 1))
