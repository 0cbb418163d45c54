"""EMIT: when the results of a view leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.core.durations import parse_length
from tidegate.core.types import Type
from tidegate.sql.statements import Query
from tidegate.testing.oracle.amounts import Unknown, duration, number
from tidegate.testing.oracle.bags import Bag, Change, Row
from tidegate.testing.oracle.inference import AFTER, BEFORE, Watermark

WAITING = ("on_watermark", "on_window_close", "final")
"""The strategies that hold a row until a watermark has passed it."""

Closed = Callable[[Row, int], bool]
"""`closed(row, BEFORE)` and `closed(row, AFTER)`: had watermarks passed the row before, or after, the micro-batch?"""


@dataclass(frozen=True)
class Emit:
    """The EMIT clause of a view. `strategy` is None if it has none; `every` and `lateness` are microseconds; `final` is
    the column of emit_final, by name or number; `early` is the interval of early results of a window without EMIT."""

    strategy: str | None = None
    every: int = 0
    lateness: int = 0
    final: str | None = None
    early: int = 0


def emit_of(query: Query, final: str | None = None, early: int = 0) -> Emit:
    """The EMIT clause of a query."""
    every = fixed_micros(query.emit.interval) if query.emit is not None and query.emit.interval is not None else 0
    lateness = fixed_micros(query.allowed_lateness) if query.allowed_lateness is not None else 0
    return Emit(query.emit.strategy if query.emit is not None else None, every, lateness, final, early)


def early_fire(settings: Mapping[str, str]) -> int:
    """Flink's `SET`: how often a window without an EMIT fires before its end; 0 for never."""
    if settings.get("table.exec.emit.early-fire.enabled", "").lower() != "true":
        return 0
    delay = parse_length(settings.get("table.exec.emit.early-fire.delay", ""))
    return delay.micros if delay is not None else 0


def fixed_micros(tree: exp.Expr) -> int:
    """A duration without months, in microseconds."""
    interval = duration(tree)
    if interval.months:
        raise Unknown(f"{tree.sql()} depends on the calendar")
    return interval.micros


class Gate:
    """Delays the changes of a result. `result` is the result without late changes, `emitted` what of it has left.

    A row leaves when it is closed. With `every`, all rows leave at each multiple of that many microseconds of
    processing time, and in between the rows that have just closed. Rows that are equal in `identity` (the indexes of
    columns) are versions of one row, which closes when the present one does."""

    def __init__(self, kinds: Sequence[Type] | None, every: int | None = None, identity: Sequence[int] = ()) -> None:
        self.result, self.emitted = Bag(kinds), Bag(kinds)
        self._every, self._identity = every, identity

    def apply(self, changes: Iterable[Change], late: Callable[[Row], bool]) -> list[Change]:
        """Apply changes to the result; the late ones are returned instead."""
        rejected = []
        for row, weight in changes:
            if late(row):
                rejected.append((row, weight))
            else:
                self.result.add(row, weight)
        return rejected

    def release(self, closed: Closed, previous_us: int, time_us: int) -> None:
        """Emit what is due in a micro-batch, in which processing time moved from `previous_us` to `time_us`."""
        if self._every is None:
            self._emit(lambda row: closed(row, AFTER))
        elif time_us // self._every > previous_us // self._every:
            self._emit(lambda row: True)
        else:
            now = {self._id(row): row for row in self.result.rows()} if self._identity else {}
            self._emit(lambda row: _closes(now.get(self._id(row), row), closed))

    def _id(self, row: Row) -> Row:
        return tuple(row[index] for index in self._identity)

    def _emit(self, due: Callable[[Row], bool]) -> None:
        stay = [row for row in self.emitted.rows() if not due(row)]
        self.emitted = Bag(self.result.kinds, [*stay, *filter(due, self.result.rows())])


def _closes(row: Row, closed: Closed) -> bool:
    return closed(row, AFTER) and not closed(row, BEFORE)


@dataclass(frozen=True)
class Closing:
    """A column that closes rows: below its watermark, or (`inclusive`, for window ends) at it."""

    index: int
    kind: Type
    watermark: Watermark
    inclusive: bool

    def passed(self, row: Row, moment: int, lag: int) -> bool:
        axis, watermark = number(row[self.index], self.kind), self.watermark.at(moment, lag)
        if axis is None or watermark is None:
            return False
        return axis <= watermark if self.inclusive else axis < watermark


@dataclass
class EmitPolicy:
    """Applies the EMIT clause of a view to its answers.

    A row is closed when all of `closing` are. `rejects_late`: changes of closed rows are late here; below a GROUP BY of
    windows they were rejected before. `began_with_rows`: rows that existed before the view are never late."""

    emit: Emit
    strategy: str
    closing: tuple[Closing, ...]
    rejects_late: bool
    began_with_rows: bool
    clock: int
    identity: tuple[int, ...] = ()
    _gate: Gate | None = None
    _answer: Bag | None = None

    def step(self, answer: Bag, clock: int) -> Bag:
        """The emitted rows after a micro-batch; `answer` is the query's answer over all accepted rows."""
        if self._gate is None:
            every = self.emit.every or self.emit.early
            self._gate = Gate(answer.kinds, every if self.strategy == "every" else None, self.identity)
        exempt = not self.rejects_late or (self._answer is None and self.began_with_rows)
        lateness = self.emit.lateness
        changes = answer.changes_since(self._answer)
        self._gate.apply(changes, lambda row: not exempt and self._closed(row, BEFORE, lateness))
        self._gate.release(self._due, self.clock, clock)
        self._answer, self.clock = answer, clock
        return self._gate.emitted

    def _due(self, row: Row, moment: int) -> bool:
        if self.strategy not in (*WAITING, "every"):
            return True
        return self._closed(row, moment, self.emit.lateness if self.strategy == "on_window_close" else 0)

    def _closed(self, row: Row, moment: int, lag: int) -> bool:
        return bool(self.closing) and all(column.passed(row, moment, lag) for column in self.closing)
