"""Errors as a terminal shows them: message, the line of SQL with a caret, detail, hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.errors.tree import Error, Span, Warning_

WIDTH = 100
"""Longer lines of SQL are shown in part."""


def render(problem: Error | Warning_) -> str:
    """
    SYNTAX_ERROR: EMIT cannot be followed by SOMETIMES
      line 3:  GROUP BY item EMIT SOMETIMES
                             ^^^^^^^^^^^^^^
      hint: write EMIT ON WATERMARK, ...
    """
    lines = [f"{problem.code}: {problem.message}"]
    text = getattr(problem, "text", None)
    if text is not None and problem.span is not None:
        lines += _excerpt(text, problem.span)
    detail = getattr(problem, "detail", None)
    if detail:
        lines += _label_lines("detail", detail)
    if problem.hint:
        lines += _label_lines("hint", problem.hint)
    return "\n".join(lines)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character offset."""
    before = text[: min(max(offset, 0), len(text))]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _excerpt(text: str, span: Span) -> list[str]:
    number, column = line_and_column(text, span.start)
    line = text.split("\n")[number - 1].rstrip().replace("\t", " ")
    excerpt, start = _window(line, column - 1)
    label = f"  line {number}:  "
    width = max(1, min(span.end - span.start, len(line) - (column - 1), len(excerpt) - start))
    return [label + excerpt, " " * (len(label) + start) + "^" * width]


def _window(line: str, position: int) -> tuple[str, int]:
    """The part of a line around a position, without indentation, and the position in that part."""
    start = len(line) - len(line.lstrip())
    if len(line) - start <= WIDTH or position < start:
        return line[start:], max(position - start, 0)
    if position - start > WIDTH // 2:
        start = position - WIDTH // 2
        line, position = f"{line[:start]}...{line[start:]}", position + 3
    end = start + WIDTH
    return line[start:end] + ("..." if end < len(line) else ""), position - start


def _label_lines(label: str, text: str) -> list[str]:
    first, *rest = text.split("\n")
    return [f"  {label}: {first}", *(f"  {' ' * len(label)}  {line}" for line in rest)]
