"""The sizes of a window: what was written, checked, as what operators are told."""

from __future__ import annotations

from typing import Never

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.errors import make
from tidegate.ir.windows import WindowSpec
from tidegate.sql.dialect import render
from tidegate.sql.lengths import length
from tidegate.sql.spans import span_of
from tidegate.sql.window_calls import WindowCall

_WORDS = {"hop": ("slide", "size"), "cumulate": ("step", "size"), "tumble": ("", "size"), "session": ("", "gap")}


def window_spec(call: WindowCall, time: str) -> WindowSpec:
    """The window over a column. Sizes must be positive and fit together."""
    small, large = _WORDS[call.kind]
    size = _positive(call, call.size, large)
    slide = None if call.slide is None else _positive(call, call.slide, small)
    if call.kind == "session" and size.months:
        _refuse(call, call.size, "a gap in months", "a gap needs a fixed length: write INTERVAL '30' DAY")
    if slide is not None:
        _check_fit(call, size, slide)
    if call.kind == "hop" and slide == size:
        return WindowSpec("tumble", time, size, offset=_offset(call, size))
    return WindowSpec(call.kind, time, size, slide, _offset(call, slide if call.kind == "hop" and slide else size))


def _positive(call: WindowCall, tree: exp.Expr, word: str) -> CalendarInterval:
    found = length(tree)
    if found is None:
        message = f"the {word} of {call.name} must be a duration, and {_shown(tree)} is none"
        hint = "write INTERVAL '10' SECOND"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=span_of(tree) or call.span)
    if found.months and found.micros:
        _refuse(call, tree, f"a {word} of months and days", "write either months, or a fixed length")
    if found.months + found.micros == 0:
        _refuse(call, tree, f"a {word} of zero", "write a positive length, such as INTERVAL '10' SECOND")
    if found.months < 0 or found.micros < 0:
        _refuse(call, tree, f"a negative {word}", "write a positive length, such as INTERVAL '10' SECOND")
    return found


def _check_fit(call: WindowCall, size: CalendarInterval, slide: CalendarInterval) -> None:
    small, _ = _WORDS[call.kind]
    assert call.slide is not None
    shown = f"{_shown(call.slide)} and {_shown(call.size)}"
    if bool(size.months) != bool(slide.months):
        problem = f"one length in months and one that is fixed: {shown}"
        _refuse(call, call.slide, problem, "write both in months, or both in days and hours")
    large_units, small_units = size.months or size.micros, slide.months or slide.micros
    if small_units > large_units:
        problem = f"a {small} that is longer than its size: {shown}"
        _refuse(call, call.slide, problem, f"the order is {call.usage}")
    if call.kind == "cumulate" and large_units % small_units:
        problem = f"a size that is not a multiple of its step: {shown}"
        _refuse(call, call.size, problem, "the last step must end with the window")


def _offset(call: WindowCall, grid: CalendarInterval) -> int:
    """Windows repeat, so an offset counts modulo their distance."""
    if call.offset is None:
        return 0
    found = length(call.offset)
    if found is None or found.months:
        what = "is in months" if found is not None else "is no duration"
        message = f"the offset of {call.name} must be a fixed length, and {_shown(call.offset)} {what}"
        hint = "write INTERVAL '1' HOUR"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=span_of(call.offset) or call.span)
    return found.micros if grid.months else found.micros % grid.micros


def _shown(tree: exp.Expr) -> str:
    return render(tree)


def _refuse(call: WindowCall, tree: exp.Expr, problem: str, hint: str) -> Never:
    span = span_of(tree) or call.span
    raise make("INVALID_WINDOW", window=call.name, problem=problem, hint=hint, span=span)
