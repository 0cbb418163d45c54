"""`INTO STDOUT`: a line per change, or per event."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.contract import OutputClosed, Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.rows import lines
from tidegate.core.durable import LastStep
from tidegate.core.options import Bag, checked_format

FORMATS = ("ops", "json")


def line_format(spec: SinkSpec, bag: Bag) -> str:
    """Return the format, which is JSON for events by default."""
    return checked_format(bag, spec.format, FORMATS, "json" if spec.events else "ops")


@dataclass
class StdoutSink(Sink):
    """Prints each step once, and records it in a file, since a terminal cannot. Only a process that dies between the
    two prints a step again. When the reader is gone (`| head`), the pipeline ends."""

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
    """Discard buffered output, so that it is not written again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
