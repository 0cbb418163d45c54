"""Naive models of the time operators: they keep all rows and recompute every answer. Windows, sessions and gates are
those of the oracle (`tidegate.testing.oracle`). Times are datetimes, watermarks microseconds."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.reference import Change, Groups, Row, picked
from tidegate.ir.specs import GateSpec, HoldBackSpec, TemporalFilterSpec, WindowAggregateSpec
from tidegate.ir.windows import WatermarkTest, WindowSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue
from tidegate.testing.oracle.amounts import Number, micros
from tidegate.testing.oracle.bags import Bag
from tidegate.testing.oracle.emit import Gate
from tidegate.testing.oracle.inference import BEFORE
from tidegate.testing.oracle.windows import Entry, Session, SessionRows, Window, closed
from tidegate.testing.oracle.windows import sessions as sessions_of

EPOCH = datetime.datetime(1970, 1, 1)
Watermarks = Mapping[str, WatermarkValue]


@dataclass
class Outcome:
    """The rows that a step rejects: late rows, and rows without a time."""

    late: Counter[Row] = field(default_factory=Counter)
    no_time: Counter[Row] = field(default_factory=Counter)

    def reject(self, reason: str, change: Change) -> None:
        rejected = self.late if reason == "late" else self.no_time
        rejected[picked(change.row, sorted(change.row))] += change.weight


def passing(test: WatermarkTest, row: Mapping[str, Any], watermarks: Watermarks) -> bool:
    value, watermark = row[test.column], watermarks.get(test.watermark)
    if value is None or watermark is None:
        return False
    number = micros(value) if isinstance(value, datetime.date) else value
    return watermark == INFINITE or number < float(watermark) or (test.inclusive and number == float(watermark))


def datetime_at(time_us: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=time_us)


def window_of(spec: WindowSpec) -> Window:
    return Window(spec.kind, spec.size, spec.slide, spec.offset)


def windows(spec: WindowSpec, time: datetime.date) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """All windows that contain a time."""
    for start, end in window_of(spec).extents(micros(time)):
        yield datetime_at(start), datetime_at(end)


def sessions(spec: WindowSpec, keys: Sequence[str], rows: Sequence[Change]) -> list[Session[Change]]:
    """The sessions of rows, per key."""
    return sessions_of([_entry(row, keys, spec.time) for row in rows], window_of(spec))


def _entry(change: Change, keys: Sequence[str], time: str) -> Entry[Change]:
    identity = picked(change.row, sorted(change.row))
    return Entry(picked(change.row, keys), micros(change.row[time]), identity, change)


class WindowedModel:
    """What the models of both kinds of windows share: when windows close, and rows with their windows."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._spec = spec

    def _limit(self, clock: Clock) -> Number | None:
        """The watermark that late rows are compared with."""
        return self._watermark(clock.previous_watermarks if self._spec.delayed else clock.watermarks)

    def _watermark(self, watermarks: Watermarks) -> Number | None:
        value = None if self._spec.watermark is None else watermarks.get(self._spec.watermark)
        return math.inf if value == INFINITE else value if value is None else float(value)

    def _with_window(self, change: Change, start: int, end: int) -> Change:
        time, spec = change.row[self._spec.window.time], self._spec.window
        zone = time.tzinfo if isinstance(time, datetime.datetime) else datetime.UTC
        edges = {spec.start: datetime_at(start), spec.end: datetime_at(end)}
        return replace(change, row={**change.row, **{name: edge.replace(tzinfo=zone) for name, edge in edges.items()}})


class Windows(WindowedModel):
    """GROUP BY windows: every row is added to each of its open windows, and stays there."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._groups = Groups(spec.aggregate)

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        outcome, accepted = Outcome(), []
        for change in changes:
            time = change.row[self._spec.window.time]
            if time is None:
                outcome.reject("no_time", change)
                continue
            extents = window_of(self._spec.window).extents(micros(time))
            open_ = [each for each in extents if not closed(each[1], self._limit(clock), self._spec.lateness)]
            accepted += [self._with_window(change, *each) for each in open_]
            if extents and not open_:
                outcome.reject("late", change)
        self._groups.step(clock.step, [accepted])
        return outcome

    def content(self) -> Counter[Row]:
        return self._groups.content()

    def open(self, clock: Clock) -> Counter[Row]:
        """The part of the content that may still change."""
        index = self._spec.aggregate.keys.index(self._spec.window.end)
        watermark, lateness = self._watermark(clock.watermarks), self._spec.lateness
        rows = self.content().items()
        return Counter({row: n for row, n in rows if not closed(micros(row[index]), watermark, lateness)})


class SessionWindows(WindowedModel):
    """GROUP BY sessions. The position of a change is its order of arrival over all steps."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._keys = [name for name in spec.aggregate.keys if name not in (spec.window.start, spec.window.end)]
        self._rows: SessionRows[Change] = SessionRows(window_of(spec.window), spec.lateness)

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        outcome, timed = Outcome(), []
        for change in (replace(change, position=clock.step * 1000 + change.position) for change in changes):
            if change.row[self._spec.window.time] is None:
                outcome.reject("no_time", change)
            else:
                timed.append((_entry(change, self._keys, self._spec.window.time), change.weight))
        for entry, _ in self._rows.step(timed, self._limit(clock)):
            outcome.reject("late", entry.row)
        return outcome

    def open(self) -> Counter[Row]:
        return self._aggregate(self._rows.open())

    def content(self) -> Counter[Row]:
        return self._aggregate([*self._rows.closed, *self._rows.open()])

    def _aggregate(self, windows: Sequence[Session[Change]]) -> Counter[Row]:
        groups = Groups(self._spec.aggregate)
        rows = [(each.row, session.start, session.end) for session in windows for each in session.entries]
        groups.step(1, [[self._with_window(*row) for row in rows]])
        return groups.content()


class GateModel:
    """The gate of the oracle with the watermark tests of a spec."""

    def __init__(self, spec: GateSpec) -> None:
        self._spec = spec
        self._gate = Gate(None, spec.every)

    @property
    def emitted(self) -> Counter[Row]:
        return Counter(self._gate.emitted.rows())

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        outcome, accepted = Outcome(), []
        for change in changes:
            if (reason := self.rejects(change.row, clock)) is None:
                accepted.append((picked(change.row, self._spec.columns), change.weight))
            else:
                outcome.reject(reason, change)
        self._gate.apply(accepted, lambda row: False)
        self._release(clock)
        return outcome

    def step_to(self, clock: Clock, result: Counter[Row]) -> None:
        """A step after which the result below the gate is `result`."""
        self._gate.result = Bag(None, result.elements())
        self._release(clock)

    def rejects(self, row: Mapping[str, Any], clock: Clock) -> str | None:
        """Why a row is rejected, or None."""
        spec, watermarks = self._spec, clock.previous_watermarks if self._spec.delayed else clock.watermarks
        if spec.every is None and any(row[test.column] is None for test in spec.release):
            return "no_time"
        return "late" if spec.late and all(passing(test, row, watermarks) for test in spec.late) else None

    def pending(self) -> bool:
        return bool(self._gate.result.changes_since(self._gate.emitted))

    def timer_us(self, clock: Clock) -> int | None:
        every = self._spec.every
        return None if every is None or not self.pending() else (clock.time_us // every + 1) * every

    def _release(self, clock: Clock) -> None:
        def closed(row: Row, moment: int) -> bool:
            named = dict(zip(self._spec.columns, row, strict=True))
            watermarks = clock.previous_watermarks if moment == BEFORE else clock.watermarks
            return bool(self._spec.release) and all(passing(test, named, watermarks) for test in self._spec.release)

        # The first step has no previous time, and no tick.
        self._gate.release(closed, clock.previous_time_us or clock.time_us, clock.time_us)


class HeldBack:
    """A reorder buffer: rows wait until each tested column passes its test or is NULL."""

    def __init__(self, spec: HoldBackSpec) -> None:
        self._spec = spec
        self._waiting: list[Change] = []

    def step(self, clock: Clock, changes: Sequence[Change]) -> list[Change]:
        """The released rows, in order."""
        rows = [*self._waiting, *sorted(changes, key=lambda change: (change.position, change.weight))]
        self._waiting = [row for row in rows if not self._released(row, clock)]
        return [row for row in rows if self._released(row, clock)]

    def _released(self, change: Change, clock: Clock) -> bool:
        tests = self._spec.tests
        return all(change.row[test.column] is None or passing(test, change.row, clock.watermarks) for test in tests)


class TemporalFilter:
    """A temporal filter: keeps all rows, of which some are visible."""

    def __init__(self, spec: TemporalFilterSpec) -> None:
        self._spec = spec
        self._rows: Counter[tuple[Row, int | None, int | None]] = Counter()

    def step(self, changes: Sequence[Change]) -> None:
        for change in changes:
            since, until = (change.row[name] if name else None for name in (self._spec.since, self._spec.until))
            self._rows[picked(change.row, self._spec.columns), since, until] += change.weight

    def content(self, time_us: int) -> Counter[Row]:
        visible: Counter[Row] = Counter()
        for (row, since, until), count in self._rows.items():
            if (since is None or since <= time_us) and (until is None or time_us < until):
                visible[row] += count
        return Counter({row: count for row, count in visible.items() if count})

    def next_us(self, time_us: int) -> int | None:
        """The next time at which the content changes without input."""
        live = [(since, until) for (_, since, until), count in self._rows.items() if count]
        valid = [pair for pair in live if pair[0] is None or pair[1] is None or pair[0] < pair[1]]
        return min((edge for pair in valid for edge in pair if edge is not None and edge > time_us), default=None)
