"""The gate of a view, which delays its rows, and what is left of their watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.plan.leaves import Node, Unary
from tidegate.plan.origins import as_type, carried, trace
from tidegate.plan.time import Window, WindowAggregate, edge_watermarks
from tidegate.traits import Traits, state
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks, WindowEdge, enforce, least


@dataclass(frozen=True)
class Closing:
    """A column of the rows at a gate with the watermarks it is compared with: a change is released when it is below (or
    at, if `inclusive`) `release`, and is late when it is below `late`."""

    column: str
    release: Watermark
    late: Watermark
    inclusive: bool = False


@dataclass(frozen=True)
class Gate(Unary):
    """Holds changes back until all of `closing` are passed, or (with `every`, in microseconds) until processing time
    reaches a multiple of that. `corrects`: emitted rows may still be corrected."""

    strategy: str
    closing: tuple[Closing, ...]
    every: int | None = None
    corrects: bool = False

    def __post_init__(self) -> None:
        self._require(tuple(each.column for each in self.closing), self.input)
        below = self.input.traits
        waits = self.every is None
        watermarks = self._after_release(_of_held_rows(self.input, self.closing)) if waits else ()
        known = {column for column, _ in watermarks}
        why = _waits_for(self.closing) if waits else _BY_THE_CLOCK
        lost: LostWatermarks = below.lost if waits else ()
        lost += tuple((column, why) for column, _ in below.watermarks if column not in known)
        self._derive(
            self.input.schema,
            Traits(below.key, waits and not self.corrects, watermarks, state.of_gate(), lost, True),
        )

    def _after_release(self, watermarks: Watermarks) -> Watermarks:
        """No change is below the watermarks by which rows are released, if they all pass at once: those of one column,
        or of one window's edges. Other columns of a row that was held may be of any age."""
        below = dict(self.input.traits.watermarks)
        moments = {_moment(below.get(each.column), each.column) for each in self.closing}
        return tuple(
            each
            for column, held in watermarks
            for each in enforce(((column, held),), moments == {_moment(below[column], column)})
        )


def _moment(watermark: Watermark | None, column: str) -> object:
    """What the watermark of a column follows: both edges of a window follow the same time."""
    return (watermark.watermark, watermark.window) if isinstance(watermark, WindowEdge) else column


_BY_THE_CLOCK = "EMIT EVERY lets rows go by the clock"


def _waits_for(closing: Sequence[Closing]) -> str:
    return f"rows wait for {' and '.join(each.column for each in closing)}"


def _of_held_rows(node: Node, closing: Sequence[Closing]) -> Watermarks:
    """The watermarks of the rows behind a gate. A row is held while any of `closing` is not passed, so a column has the
    least of what follows from each of them, if something does."""
    known: list[tuple[str, Watermark]] = []
    for column, watermark in node.traits.watermarks:
        bounds = [_while_held(node, each, column) for each in closing]
        found = [bound for bound in bounds if bound is not None and bound.type == watermark.type]
        if len(found) == len(closing):
            known.append((column, least(found)))
    return tuple(known)


def _while_held(node: Node, closing: Closing, column: str) -> Watermark | None:
    """What a column is not below in rows that `closing` holds; None if that is unknown."""
    if isinstance(node, Window | WindowAggregate):
        return _in_open_windows(node, closing.late, column)
    if column == closing.column:
        return closing.late
    return carried(closing.late, trace(node, closing.column), trace(node, column))


def _in_open_windows(node: Window | WindowAggregate, time: Watermark, column: str) -> Watermark | None:
    """What a column is not below in the windows that are open at a watermark of their time."""
    edges = dict(edge_watermarks(time, node.window))
    if column in edges:
        return edges[column]
    start, known = edges.get(node.window.start), trace(node.input, node.window.time)
    return None if start is None else carried(as_type(known[0].type, start), known, trace(node, column))
