"""When results leave: what of a query's answer is out, by its EMIT."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.types import Type
from tidegate.testing.bags import Bag, Row
from tidegate.testing.time.amounts import number
from tidegate.testing.time.lines import AFTER, BEFORE, Line

WAITING = ("on_watermark", "on_window_close", "final")


@dataclass(frozen=True)
class Closing:
    """A column by which rows close: when it is below its line, or (windows, `inclusive`) at it."""

    place: int
    kind: Type
    line: Line
    inclusive: bool

    def passed(self, row: Row, moment: int, lag: int) -> bool:
        found, line = number(row[self.place], self.kind), self.line.at(moment, lag)
        if found is None or line is None:
            return False
        return found <= line if self.inclusive else found < line


@dataclass
class Gate:
    """Holds the rows of an answer until their time. `judges`: changes of rows that are closed come too late here;
    windows that are grouped by have judged the rows below them already. `tick` is the last tick of EVERY so far.
    `began_with_rows`: what was there before the view is never late."""

    strategy: str
    every: int = 0
    lateness: int = 0
    judges: bool = False
    tick: int = 0
    closing: tuple[Closing, ...] = ()
    began_with_rows: bool = False
    _last: Bag | None = None
    _kept: Bag | None = None
    _out: Bag | None = None

    def step(self, answer: Bag, clock: int) -> Bag:
        """The rows that are out after a micro-batch, of an answer over all rows accepted."""
        if self._kept is None or self._out is None:
            self._kept, self._out = Bag(answer.kinds), Bag(answer.kinds)
        judges = self.judges and not (self._last is None and self.began_with_rows)
        for row, weight in answer.changes_since(self._last):
            if not (judges and self._closed(row, BEFORE, self.lateness)):
                self._kept.add(row, weight)
        self._last = answer
        if self.strategy == "every":
            self._out = self._at_tick(self._kept, self._out, clock)
        elif self.strategy in WAITING:
            lag = self.lateness if self.strategy == "on_window_close" else 0
            self._out = Bag(answer.kinds, (row for row in self._kept.rows() if self._closed(row, AFTER, lag)))
        else:
            self._out = Bag(answer.kinds, self._kept.rows())
        return self._out

    def _at_tick(self, kept: Bag, out: Bag, clock: int) -> Bag:
        """At a tick all that is kept; in between, rows that have just closed are as they are now."""
        ticked, self.tick = clock // self.every > self.tick, clock // self.every
        if ticked:
            return Bag(kept.kinds, kept.rows())
        stays = [row for row in out.rows() if not self._closes(row)]
        return Bag(kept.kinds, [*stays, *(row for row in kept.rows() if self._closes(row))])

    def _closes(self, row: Row) -> bool:
        return self._closed(row, AFTER, 0) and not self._closed(row, BEFORE, 0)

    def _closed(self, row: Row, moment: int, lag: int) -> bool:
        return bool(self.closing) and all(one.passed(row, moment, lag) for one in self.closing)
