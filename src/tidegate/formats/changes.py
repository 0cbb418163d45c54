"""The parts of a table of changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.core.schema import names
from tidegate.formats.base import Layout

_ADDED = 3


@dataclass(frozen=True)
class Parts:
    """Op, weight and step of each row, and the rows under the names of the layout."""

    ops: list[str]
    weights: list[int]
    steps: list[int]
    rows: pa.Table


def split(changes: pa.Table, layout: Layout) -> Parts:
    """Columns are found by place: a view may have columns named op, weight or step itself."""
    rows = changes.select(list(range(_ADDED, changes.num_columns))).rename_columns(list(names(layout.columns)))
    ops, weights, steps = (changes.column(place).to_pylist() for place in range(_ADDED))
    return Parts(ops, weights, steps, rows)
