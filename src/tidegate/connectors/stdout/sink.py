"""`INTO STDOUT`: a line per change, or per event."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import OutputClosed, Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.rows import appended
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag, checked_format
from tidegate.core.render import json_objects, text_cells
from tidegate.formats.events import event_objects

FORMATS = ("ops", "json")


def line_format(spec: SinkSpec, bag: Bag) -> str:
    """Take the sink's options out of the bag. Events are JSON unless told otherwise."""
    return checked_format(bag, spec.format, FORMATS, "json" if spec.events else "ops")


@dataclass
class StdoutSink(Sink):
    """Prints each step once, and remembers that in a file of its own, for a terminal cannot. Only a process that dies
    between the two prints a step again. When nobody reads it any more (`| head`), the pipeline ends."""

    format: str
    _last: LastStep | None = None

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> StdoutSink:
        return cls(spec, line_format(spec, bag))

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities("changelog")

    def open(self, context: SinkContext) -> None:
        self._last = LastStep(context.folder, context.owner)

    def write(self, step: int, changes: pa.Table) -> None:
        assert self._last is not None
        if self._last.step is not None and step <= self._last.step:
            return
        try:
            sys.stdout.writelines(f"{line}\n" for line in lines(changes, self.spec, self.format))
            sys.stdout.flush()
        except BrokenPipeError as problem:
            _forget_unread()
            raise OutputClosed(problem.errno, problem.strerror) from None
        self._last.keep(step)

    def last_step(self) -> int | None:
        return None if self._last is None else self._last.step

    def close(self) -> None:
        sys.stdout.flush()


def _forget_unread() -> None:
    """What nobody will read is not tried again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lines(changes: pa.Table, spec: SinkSpec, format: str) -> Iterator[str]:
    """Changes of a view as the format says; events of the bus in JSON are the events themselves."""
    if format == "ops":
        return op_lines(changes)
    if spec.events:
        return event_objects(appended(changes, spec))
    return json_lines(changes)


def op_lines(changes: pa.Table) -> Iterator[str]:
    """`     3  +I  pen | 30`: step, op, values; `x2` when a row came twice."""
    ops, weights, steps, *columns = changes.columns
    rows = zip(*map(text_cells, columns), strict=True) if columns else iter([()] * changes.num_rows)
    for op, weight, step, row in zip(ops.to_pylist(), weights.to_pylist(), steps.to_pylist(), rows, strict=True):
        times = f"  x{abs(weight)}" if abs(weight) > 1 else ""
        yield f"{step:>6}  {op}  {' | '.join(row)}{times}"


def json_lines(changes: pa.Table) -> Iterator[str]:
    """One object per change: step, op, weight, row."""
    ops, weights, steps = (column.to_pylist() for column in changes.columns[:3])
    rows = json_objects(changes.select(list(range(3, changes.num_columns))))
    for op, weight, step, row in zip(ops, weights, steps, rows, strict=True):
        yield f'{{"step":{step},"op":"{op}","weight":{weight},"row":{row}}}'
