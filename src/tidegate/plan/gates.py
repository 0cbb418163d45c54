"""The gate of a view, which delays its rows, and what is left of their watermarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.plan.groups import Aggregate, Distinct
from tidegate.plan.leaves import Node, Unary, View
from tidegate.plan.rows import Filter, Project
from tidegate.plan.time import IngressCheck, Window, WindowAggregate, edge_watermarks
from tidegate.sql import call
from tidegate.traits import Traits, state
from tidegate.traits.held_back import held_back
from tidegate.traits.watermark import Expression, LostWatermarks, Watermark, Watermarks, WindowEdge, enforce, least


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
_FLOORS = ("date", "to_date", "date_trunc", "trunc", "floor")
"""Functions with a value that is not above that of their time or number."""


def _waits_for(closing: Sequence[Closing]) -> str:
    return f"rows wait for {' and '.join(each.column for each in closing)}"


def _of_held_rows(node: Node, closing: Sequence[Closing]) -> Watermarks:
    """The watermarks of the rows behind a gate. A row is held while any of `closing` is not passed, so a column has the
    least of what follows from each of them, if something does."""
    known: list[tuple[str, Watermark]] = []
    for column, watermark in node.traits.watermarks:
        bounds = [_while_held(node, each, column, watermark) for each in closing]
        found = [bound for bound in bounds if bound is not None and bound.type == watermark.type]
        if len(found) == len(closing):
            known.append((column, least(found)))
    return tuple(known)


def _while_held(node: Node, closing: Closing, column: str, watermark: Watermark) -> Watermark | None:
    """What a column is not below in rows that `closing` holds; None if that is unknown."""
    if isinstance(node, Window | WindowAggregate):
        return _in_open_windows(node, closing.late, column)
    if column == closing.column:
        return closing.late
    own = node.traits.watermark(closing.column)
    bound = None if own is None else held_back(watermark, own, closing.late)
    if bound is not None:
        return bound
    return _above_floor(node, closing, column, watermark)


def _in_open_windows(node: Window | WindowAggregate, time: Watermark, column: str) -> Watermark | None:
    """What a column is not below in the windows that are open at a watermark of their time."""
    below, edges = node.input.traits, dict(edge_watermarks(time, node.window))
    own, start = below.watermark(node.window.time), edges.get(node.window.start)
    if column in edges:
        return edges[column]
    watermark = below.watermark(column)
    if own is None or start is None or watermark is None:
        return None
    bound = _as(own.type, start)
    return bound if column == node.window.time else held_back(watermark, own, bound)


def _above_floor(node: Node, closing: Closing, column: str, watermark: Watermark) -> Watermark | None:
    """What a column is not below in rows that `closing` holds, if that is a time rounded down (its day, the start of
    its window), and the column that time or computed from it."""
    below, time, tree = _defined(node, closing.column)
    late = closing.late
    if isinstance(below, Window) and tree is None and time in (below.window.start, below.window.end):
        if time == below.window.end:
            if not isinstance(late, WindowEdge):
                return None
            late = replace(late, edge="start")
        time = below.window.time
    elif tree is not None and not _rounds_down(tree):
        return None
    own = below.traits.watermark(time)
    if own is None:
        return None
    bound = _as(own.type, late)
    same = _defined(node, column)
    return bound if same == (below, time, None) else held_back(watermark, own, bound)


def _defined(node: Node, column: str) -> tuple[Node, str, exp.Expr | None]:
    """Where a column comes from: the node and its column, and the expression over it (None: it is that column)."""
    while True:
        match node:
            case Filter() | Distinct() | IngressCheck() | Aggregate():
                node = node.input
            case View():
                node = node.plan
            case Project():
                expression = next(item.expression for item in node.items if item.name == column)
                node = node.input
                if expression.column is not None:
                    column = expression.column
                elif len(expression.columns) == 1:
                    below, column, inner = _defined(node, next(iter(expression.columns)))
                    return below, column, expression.tree if inner is None else None
                else:
                    return node, column, expression.tree
            case _:
                return node, column, None


def _rounds_down(tree: exp.Expr) -> bool:
    tree = tree.unnest()
    if isinstance(tree, exp.Cast | exp.TryCast):
        return tree.to.sql().lower() == "date" and isinstance(tree.this, exp.Column)
    function = call(tree)
    return function is not None and function.name in _FLOORS and any(isinstance(a, exp.Column) for a in function.args)


def _as(type: str, watermark: Watermark) -> Watermark:
    """The watermark as a value of another type, not above it."""
    return watermark if watermark.type == type else Expression(type, f"CAST(`x` AS {type})", (("x", watermark),))
