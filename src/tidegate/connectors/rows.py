"""Changes of a step as sinks write them: inserted rows, the resulting row of each key, lines of text, JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.contract import SinkSpec
from tidegate.core.render import json_objects, text_cells
from tidegate.core.schema import Schema, names
from tidegate.errors import Error, Span, make
from tidegate.formats.events import event_objects

ADDED = ("op", "weight", "step")


class Outcome(NamedTuple):
    """The rows of changed keys after a step, and the last rows of deleted keys."""

    remaining: pa.Table
    deleted: pa.Table


def rows_in(changes: pa.Table, columns: Schema) -> pa.Table:
    """Select the relation's columns by index: it can have columns named op, weight or step itself."""
    return changes.select(list(range(len(ADDED), changes.num_columns))).rename_columns(list(names(columns)))


def appended(changes: pa.Table, spec: SinkSpec) -> pa.Table:
    """Return the inserted rows, each as often as its weight; an error if rows are retracted."""
    weights, rows = changes.column(1), rows_in(changes, spec.columns)
    if changes.num_rows and pc.min(weights).as_py() < 0:
        message = f"sink {spec.name} appends rows, but step {changes.column(2)[0]} takes rows back"
        raise make("SINK_CANNOT_TAKE", message=message, hint="write mode = 'changelog'")
    if changes.num_rows and pc.max(weights).as_py() > 1:
        rows = rows.take([index for index, weight in enumerate(weights.to_pylist()) for _ in range(weight)])
    return rows


def outcome(changes: pa.Table, columns: Schema, key: Sequence[str]) -> Outcome:
    """Return the last inserted row of each key; a key with deletes only is deleted."""
    rows = rows_in(changes, columns)
    frame = pl.DataFrame(pl.from_arrow(rows.select(list(key)))).with_columns(
        pl.Series("__comes", pc.greater(changes.column(1), 0).to_numpy()), pl.int_range(pl.len()).alias("__place")
    )
    last = frame.sort("__comes", maintain_order=True).group_by(list(key), maintain_order=True).last()
    indexes = [last.filter(pl.col("__comes") == inserted)["__place"].sort().to_arrow() for inserted in (True, False)]
    return Outcome(*(rows.take(index) for index in indexes))


def reject_clash(columns: Schema, at: Span | None) -> None:
    """Reject views with columns named op, weight or step, which a changelog adds."""
    clash = [name for name in names(columns) if name.casefold() in ADDED]
    if clash:
        message = f"mode 'changelog' adds the columns op, weight and step, but there is a column {clash[0]} already"
        raise make("INVALID_OPTION", message=message, hint=f"rename {clash[0]} in a view on it", span=at)


def no_key(kind: str, mode: str, reads: str, at: Span | None) -> Error:
    """The error for a mode that replaces rows by key, and a relation without one."""
    return make(
        "SINK_CANNOT_TAKE",
        message=f"{kind} in mode '{mode}' replaces rows by their key, and {reads or 'the view'} shows none",
        hint="GROUP BY a key and SELECT it, or choose another mode",
        span=at,
    )


def lines(changes: pa.Table, spec: SinkSpec, format: str) -> Iterator[str]:
    """Return the lines of changes in a format; events of the bus in JSON are the events themselves."""
    if format == "ops":
        return op_lines(changes)
    if spec.events:
        return event_objects(appended(changes, spec))
    return json_lines(changes)


def op_lines(changes: pa.Table) -> Iterator[str]:
    """`     3  +I  pen | 30`: step, op, values; `x2` for a weight of 2."""
    ops, weights, steps, *columns = changes.columns
    rows = zip(*map(text_cells, columns), strict=True) if columns else iter([()] * changes.num_rows)
    for op, weight, step, row in zip(ops.to_pylist(), weights.to_pylist(), steps.to_pylist(), rows, strict=True):
        times = f"  x{abs(weight)}" if abs(weight) > 1 else ""
        yield f"{step:>6}  {op}  {' | '.join(row)}{times}"


def json_lines(changes: pa.Table) -> Iterator[str]:
    """Yield a JSON object per change: step, op, weight, row."""
    ops, weights, steps = (column.to_pylist() for column in changes.columns[:3])
    rows = json_objects(changes.select(list(range(3, changes.num_columns))))
    for op, weight, step, row in zip(ops, weights, steps, rows, strict=True):
        yield f'{{"step":{step},"op":"{op}","weight":{weight},"row":{row}}}'


Message = tuple[str, str]
"""The channel of an event or the op of a change, and the object."""


def messages(spec: SinkSpec, changes: pa.Table) -> Iterator[Message]:
    """Return the messages of a step, deterministically and in order."""
    if spec.events:
        events = appended(changes, spec)
        return zip(events.column("channel").to_pylist(), event_objects(events), strict=True)
    return zip(changes.column(0).to_pylist(), json_lines(changes), strict=True)


def arrays(objects: Iterator[str], most: int) -> Iterator[str]:
    """Yield JSON arrays of at most `most` objects."""
    while part := list(islice(objects, most)):
        yield f"[{','.join(part)}]"
