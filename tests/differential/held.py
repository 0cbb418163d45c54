"""The watermarks of rows that wait: what each column of such a row cannot be below, from docs/time.md, "Behind a view
that waits"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.differential.inputs import Relation
from tests.differential.marks import Mark, least, mapped
from tests.differential.pipeline import Window
from tests.differential.windows import earliest_open, windows_of


class How(Protocol):
    """How a column is computed from another one."""

    def mark(self, of_column: Mark, /) -> Mark:
        """What it is not below if the other one is not below that; None if that is unknown."""

    def bound(self, of_value: Mark, /) -> Mark:
        """What the other one is not below if it is not below that itself; None if that is unknown."""


@dataclass(frozen=True)
class Edge:
    """The start (0) or end (1) of a window of a time."""

    window: Window
    which: int

    def mark(self, of_column: Mark) -> Mark:
        if self.window.kind == "SESSION":
            return of_column if self.which == 1 else None
        return mapped(of_column, lambda at: earliest_open(at, self.window)[self.which])

    def bound(self, of_value: Mark) -> Mark:
        if self.window.kind == "SESSION":
            return None
        return of_value if self.which == 0 else mapped(of_value, self._first_start)

    def _first_start(self, end: float) -> float:
        """The start of the first window that ends then or later."""
        return windows_of(math.ceil(end) - 1, self.window)[0][0]


Origin = tuple[Relation, str, How]
"""The column that another one is computed from."""
Place = tuple[str, str]
"""A relation and its column."""


def marks_of_waiting(
    view: str, candidates: Mapping[str, Mark], origins: Mapping[str, Origin], awaited: Mapping[str, Mark]
) -> dict[str, Mark]:
    """The watermarks of the rows of a view that wait for the columns `awaited` to be below these marks; `candidates`
    are the columns that would have a watermark if no row waited."""
    paths = {column: _path(view, column, origins) for column in {*candidates, *awaited}}
    found: dict[str, Mark] = {}
    for column in candidates:
        bounds = [
            mark if column == other else _carried(mark, paths[other], paths[column]) for other, mark in awaited.items()
        ]
        if None not in bounds:
            found[column] = least(bounds)
    return found


def marks_of_open_windows(
    candidates: Mapping[str, Mark], origins: Mapping[str, Origin], edges: Mapping[str, Mark], time: Relation, name: str
) -> dict[str, Mark]:
    """The watermarks of rows that wait for the end of their window: `edges` are those of the earliest open one, by `ws`
    and `we`, and `name` is the column of its time."""
    known = [((time.name, name), None), *_path_of(time, name)]
    found: dict[str, Mark] = {}
    for column in candidates:
        if column in edges:
            found[column] = edges[column]
        elif column in origins and edges.get("ws") is not None:
            source, below, how = origins[column]
            path = [(("", column), None), ((source.name, below), how), *_path_of(source, below)]
            mark = _carried(edges["ws"], known, path)
            if mark is not None:
                found[column] = mark
    return found


Path = Sequence[tuple[Place, How | None]]
"""The places that a column comes from, the nearest first, each with how the one before it is computed from it."""


def _path(view: str, column: str, origins: Mapping[str, Origin]) -> Path:
    if column not in origins:
        return [((view, column), None)]
    source, below, how = origins[column]
    return [((view, column), None), ((source.name, below), how), *_path_of(source, below)]


def _path_of(relation: Relation, column: str) -> Path:
    """What is below a column of a relation."""
    origin = relation.origin(column)
    if origin is None:
        return []
    source, below, how = origin
    return [((source.name, below), how), *_path_of(source, below)]


def _carried(mark: Mark, known: Path, path: Path) -> Mark:
    """The mark of the first column of `path`, from that of the first one of `known`."""
    places = [place for place, _ in path]
    current = mark
    for place, how in known:
        if how is not None:
            current = how.bound(current)
        if current is None:
            return None
        if place in places:
            for _, step in reversed(path[: places.index(place) + 1]):
                current = current if step is None or current is None else step.mark(current)
            return current
    return None
