"""What a sink makes of a step's changes: rows that come, and what is left of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.contract import SinkSpec
from tidegate.core.schema import Schema, names
from tidegate.errors import Error, Span, make

ADDED = ("op", "weight", "step")


class Outcome(NamedTuple):
    """The rows that keys have after a step, one for each, and the rows of keys that are gone."""

    kept: pa.Table
    gone: pa.Table


def rows_in(changes: pa.Table, columns: Schema) -> pa.Table:
    """The relation's own columns, found by place: it may have columns named op, weight or step itself."""
    return changes.select(list(range(len(ADDED), changes.num_columns))).rename_columns(list(names(columns)))


def appended(changes: pa.Table, spec: SinkSpec) -> pa.Table:
    """The rows that come, each as often as its weight says."""
    weights, rows = changes.column(1), rows_in(changes, spec.columns)
    if changes.num_rows and pc.min(weights).as_py() < 0:
        message = f"sink {spec.name} appends rows, but step {changes.column(2)[0]} takes rows back"
        raise make("SINK_CANNOT_TAKE", message=message, hint="write mode = 'changelog'")
    if changes.num_rows and pc.max(weights).as_py() > 1:
        rows = rows.take([place for place, weight in enumerate(weights.to_pylist()) for _ in range(weight)])
    return rows


def outcome(changes: pa.Table, columns: Schema, key: Sequence[str]) -> Outcome:
    """The last row that came for a key is what it has; a key for which rows only went is gone."""
    rows = rows_in(changes, columns)
    frame = pl.DataFrame(pl.from_arrow(rows.select(list(key)))).with_columns(
        pl.Series("__comes", pc.greater(changes.column(1), 0).to_numpy()), pl.int_range(pl.len()).alias("__place")
    )
    last = frame.sort("__comes", maintain_order=True).group_by(list(key), maintain_order=True).last()
    places = [last.filter(pl.col("__comes") == comes)["__place"].sort().to_arrow() for comes in (True, False)]
    return Outcome(*(rows.take(found) for found in places))


def reject_clash(columns: Schema, at: Span | None) -> None:
    """A changelog has columns op, weight and step beside those of the view."""
    clash = [name for name in names(columns) if name.casefold() in ADDED]
    if clash:
        message = f"mode 'changelog' adds the columns op, weight and step, but there is a column {clash[0]} already"
        raise make("INVALID_OPTION", message=message, hint=f"rename {clash[0]} in a view on it", span=at)


def no_key(kind: str, mode: str, reads: str, at: Span | None) -> Error:
    """A mode that replaces rows by their key, for a relation that shows none."""
    return make(
        "SINK_CANNOT_TAKE",
        message=f"{kind} in mode '{mode}' replaces rows by their key, and {reads or 'the view'} shows none",
        hint="GROUP BY a key and SELECT it, or choose another mode",
        span=at,
    )
