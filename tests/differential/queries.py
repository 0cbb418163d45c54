"""What every query of a view does, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.differential.expressions import Expression
from tests.differential.held import Edge, Origin
from tests.differential.inputs import Late, Marks, Relation, Row, Rows
from tests.differential.marks import Mark, has_reached, mapped
from tests.differential.pipeline import Window
from tests.differential.windows import Span, earliest_open, windows_of

LateRows = dict[str, list[Late]]
"""Late rows by the relation that they came from."""


@dataclass(frozen=True)
class Entry:
    """A row of a result before EMIT. `ends`: it is closed once each of these marks has reached its value, or, if
    strict, is above it; a value of None is never reached. No `ends` at all: it never closes."""

    key: tuple[Any, ...]
    row: Row
    ends: tuple[tuple[str, int | None], ...] = ()
    strict: bool = False

    def closed(self, marks: Mapping[str, Mark]) -> bool:
        return bool(self.ends) and all(
            end is not None and self._passed(marks.get(column), end) for column, end in self.ends
        )

    def _passed(self, mark: Mark, end: int) -> bool:
        return has_reached(mark, end) and not (self.strict and mark == end)


class Query(Protocol):
    columns: tuple[str, ...]
    key: tuple[int, ...] | None
    origins: Mapping[str, Origin]
    """Where its columns come from, if each from one column of a source."""

    def accept(self, deltas: Mapping[str, Rows], clock: int) -> LateRows:
        """Take the changes of the sources; returns what is late."""

    def entries(self, clock: int) -> Counter[Entry]:
        """The result of all that was accepted."""

    def closing(self, which: str, lag: int = 0) -> Mapping[str, Mark]:
        """The marks that close entries, `before` the pass or `now`, with the inputs that much behind."""

    def marks(self, which: str, lag: int = 0) -> dict[str, Mark]:
        """The watermarks of the result, with the inputs that much behind."""


def take_windows(
    accepted: Counter[tuple[Row, Span | None]],
    row: Row,
    weight: int,
    record: Mapping[str, Any],
    window: Window,
    marks: Mapping[str, Mark],
) -> bool:
    """Put the row into each of its windows that is not closed for good; False if all of them are."""
    time = record[window.time]
    if time is None:
        return True
    open_ = [span for span in windows_of(time, window) if not has_reached(marks["we"], span[1])]
    for span in open_:
        accepted[row, span] += weight
    return bool(open_)


def marks_of(items: tuple[tuple[str, Expression], ...], source: Marks, lag: int) -> dict[str, Mark]:
    """The watermarks of expressions that have one."""
    return {name: mark for name, item in items if (mark := item.mark(source.of(item.column, lag))) is not None}


def origins_of(items: tuple[tuple[str, Expression], ...], source: Relation, window: Window | None) -> dict[str, Origin]:
    """The columns of the source that expressions and the edges of a window are computed from."""
    found: dict[str, Origin] = {name: (source, item.column, item) for name, item in items}
    if window is not None:
        found |= {edge: (source, window.time, Edge(window, which)) for which, edge in enumerate(("ws", "we"))}
    return found


def window_marks(source: Marks, window: Window, lag: int) -> dict[str, Mark]:
    """The edges of the earliest window that can still change; of sessions, the end alone."""
    mark = source.of(window.time, lag)
    if mark is None:
        return {}
    if window.kind == "SESSION":
        return {"we": mark}
    return {
        "ws": mapped(mark, lambda at: earliest_open(at, window)[0]),
        "we": mapped(mark, lambda at: earliest_open(at, window)[1]),
    }
