"""A naive model of the operators of time, in plain Python: it keeps all rows and recomputes every answer from scratch.
Windows and sessions are those of the oracle (`tidegate.testing.time.windows`). Times are datetimes, watermarks
microseconds."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.reference import Change, Groups, Row, picked
from tidegate.ir.specs import GateSpec, HoldBackSpec, TemporalFilterSpec, WindowAggregateSpec
from tidegate.ir.windows import WatermarkTest, WindowSpec
from tidegate.kernels.api import INFINITE, Clock, WatermarkValue
from tidegate.testing.time.windows import Window
from tidegate.testing.time.windows import sessions as extents

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass
class Outcome:
    """What a step says besides its changes: rows too late, and rows without a time."""

    late: Counter[Row] = field(default_factory=Counter)
    no_time: Counter[Row] = field(default_factory=Counter)

    def reject(self, kind: str, change: Change) -> None:
        refused = self.late if kind == "late" else self.no_time
        refused[picked(change.row, sorted(change.row))] += change.weight


def micros(time: datetime.date) -> int:
    """Microseconds since the epoch; a date is its midnight."""
    if not isinstance(time, datetime.datetime):
        time = datetime.datetime(time.year, time.month, time.day)
    return (time.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)


def reached(watermark: WatermarkValue, value: int) -> bool:
    """Whether a watermark is at or above a value."""
    return watermark == INFINITE or (watermark is not None and float(watermark) >= value)


def passing(test: WatermarkTest, row: Mapping[str, Any], watermarks: Mapping[str, WatermarkValue]) -> bool:
    value, watermark = row[test.column], watermarks.get(test.watermark)
    if value is None or watermark is None:
        return False
    number = micros(value) if isinstance(value, datetime.date) else value
    return watermark == INFINITE or number < float(watermark) or (test.inclusive and number == float(watermark))


def moment(time_us: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=time_us)


def windows(spec: WindowSpec, time: datetime.date) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """All windows that cover a time."""
    for start, end in Window(spec.kind, spec.size, spec.slide, spec.offset).covering(micros(time)):
        yield moment(start), moment(end)


class Windows:
    """GROUP BY windows: every row is put into each of its windows that is open, and stays there."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._spec, self._groups = spec, Groups(spec.aggregate)

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        outcome, taken = Outcome(), []
        for change in changes:
            time = change.row[self._spec.window.time]
            if time is None:
                outcome.reject("no_time", change)
                continue
            every = list(windows(self._spec.window, time))
            mine = [window for window in every if not self._closed(window[1], self._since(clock))]
            taken += [self._in(change, window) for window in mine]
            if every and not mine:
                outcome.reject("late", change)
        self._groups.step(clock.step, [taken])
        return outcome

    def content(self) -> Counter[Row]:
        return self._groups.content()

    def kept(self, clock: Clock) -> Counter[Row]:
        """The part of the content that may still change."""
        place = self._spec.aggregate.keys.index(self._spec.window.end)
        everything = self.content()
        return Counter({row: n for row, n in everything.items() if not self._closed(row[place], clock.watermarks)})

    def _since(self, clock: Clock) -> Mapping[str, WatermarkValue]:
        return clock.previous_watermarks if self._spec.delayed else clock.watermarks

    def _closed(self, end: datetime.datetime, watermarks: Mapping[str, WatermarkValue]) -> bool:
        watermark = None if self._spec.watermark is None else watermarks.get(self._spec.watermark)
        return reached(watermark, micros(end) + self._spec.lateness)

    def _in(self, change: Change, window: tuple[datetime.datetime, datetime.datetime]) -> Change:
        time, spec = change.row[self._spec.window.time], self._spec.window
        zone = time.tzinfo if isinstance(time, datetime.datetime) else datetime.UTC
        start, end = (edge.replace(tzinfo=zone) for edge in window)
        return replace(change, row={**change.row, spec.start: start, spec.end: end})


@dataclass
class Session:
    """Rows of one key that follow each other closely."""

    key: Row
    rows: list[Change]
    start: int
    end: int


def sessions(spec: WindowSpec, keys: Sequence[str], rows: Sequence[Change]) -> list[Session]:
    """The sessions of rows, per key."""
    by_key: dict[Row, list[Change]] = {}
    for row in rows:
        by_key.setdefault(picked(row.row, keys), []).append(row)
    found = []
    for key, mine in by_key.items():
        for (start, end), times in extents((micros(row.row[spec.time]) for row in mine), Window("session", spec.size)):
            members = [row for row in mine if micros(row.row[spec.time]) in times]
            found.append(Session(key, members, start, end))
    return found


class SessionWindows:
    """GROUP BY sessions: all rows of open sessions, and where closed ones lay. Each row has weight 1 and stands for
    itself; its place tells when it came."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._spec = spec
        self._keys = [name for name in spec.aggregate.keys if name not in (spec.window.start, spec.window.end)]
        self._rows: list[Change] = []
        self._over: list[Session] = []

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        spec, outcome = self._spec, Outcome()
        watermark = (
            None
            if spec.watermark is None
            else (clock.previous_watermarks if spec.delayed else clock.watermarks).get(spec.watermark)
        )
        for session in self._sessions():
            if reached(watermark, session.end + spec.lateness):
                self._over.append(session)
                self._rows = [row for row in self._rows if row not in session.rows]
        fresh = [replace(change, place=clock.step * 1000 + change.place) for change in changes]
        for change in fresh:
            if change.row[spec.window.time] is None:
                outcome.reject("no_time", change)
        came = self._net([change for change in fresh if change.row[spec.window.time] is not None], outcome)
        known = list(self._rows)
        self._rows += [row for row in came if not self._reopens(row, watermark, outcome)]
        for session in self._sessions():
            if reached(watermark, session.end + spec.lateness) and not any(row in known for row in session.rows):
                for row in session.rows:
                    outcome.reject("late", row)
                    self._rows.remove(row)
        return outcome

    def open(self) -> Counter[Row]:
        return self._content(self._sessions())

    def content(self) -> Counter[Row]:
        return self._content([*self._over, *self._sessions()])

    def _sessions(self) -> list[Session]:
        return sessions(self._spec.window, self._keys, self._rows)

    def _net(self, changes: Sequence[Change], outcome: Outcome) -> list[Change]:
        """Deletes take a row that came in the same step, or one that is there, or come too late."""
        came = [change for change in changes if change.weight > 0]
        for change in changes:
            if change.weight < 0:
                same = [row for row in came if _alike(row, change)] or [r for r in self._rows if _alike(r, change)]
                if not same:
                    outcome.reject("late", change)
                elif same[0] in came:
                    came.remove(same[0])
                else:
                    self._rows.remove(same[0])
        return came

    def _reopens(self, row: Change, watermark: WatermarkValue, outcome: Outcome) -> bool:
        spec, time = self._spec, micros(row.row[self._spec.window.time])
        gap, key = spec.window.size.micros, picked(row.row, self._keys)
        for session in self._over:
            remembered = not reached(watermark, session.end + spec.lateness + gap)
            if remembered and session.key == key and session.start - gap < time < session.end:
                outcome.reject("late", row)
                return True
        return False

    def _content(self, found: Sequence[Session]) -> Counter[Row]:
        spec, aggregate = self._spec.window, self._spec.aggregate
        groups = Groups(aggregate)
        rows = []
        for session in found:
            zone = session.rows[0].row[spec.time].tzinfo
            start, end = (moment(edge).replace(tzinfo=zone) for edge in (session.start, session.end))
            rows += [replace(row, row={**row.row, spec.start: start, spec.end: end}) for row in session.rows]
        groups.step(1, [rows])
        return groups.content()


def _alike(one: Change, other: Change) -> bool:
    return picked(one.row, sorted(one.row)) == picked(other.row, sorted(other.row))


class Gate:
    """The difference between what is true and what has left, by whole rows."""

    def __init__(self, spec: GateSpec) -> None:
        self._spec = spec
        self.true: Counter[Row] = Counter()
        self.left: Counter[Row] = Counter()

    def step(self, clock: Clock, changes: Sequence[Change]) -> Outcome:
        outcome = Outcome()
        for change in changes:
            if (refused := self.refused(change.row, clock)) is None:
                self.true[picked(change.row, self._spec.columns)] += change.weight
            else:
                outcome.reject(refused, change)
        self.release(clock)
        return outcome

    def refused(self, row: Mapping[str, Any], clock: Clock) -> str | None:
        spec, watermarks = self._spec, clock.previous_watermarks if self._spec.delayed else clock.watermarks
        if spec.every is None and any(row[test.column] is None for test in spec.release):
            return "no_time"
        return "late" if spec.late and all(passing(test, row, watermarks) for test in spec.late) else None

    def release(self, clock: Clock) -> None:
        for row in {*self.true, *self.left}:
            if self._goes(dict(zip(self._spec.columns, row, strict=True)), clock):
                self.left[row] = self.true[row]
        self.left = Counter({row: count for row, count in self.left.items() if count})

    def holds(self) -> bool:
        return any(self.true[row] != self.left[row] for row in {*self.true, *self.left})

    def timer_us(self, clock: Clock) -> int | None:
        every = self._spec.every
        return None if every is None or not self.holds() else (clock.time_us // every + 1) * every

    def _goes(self, row: Mapping[str, Any], clock: Clock) -> bool:
        now, before = (
            bool(self._spec.release) and all(passing(test, row, watermarks) for test in self._spec.release)
            for watermarks in (clock.watermarks, clock.previous_watermarks)
        )
        every = self._spec.every
        if every is None:
            return now
        ticks = clock.previous_time_us > 0 and any(
            us % every == 0 for us in range(clock.previous_time_us + 1, clock.time_us + 1)
        )
        return ticks or (now and not before)


class Waiting:
    """HOLD BACK: rows wait until they pass every test or have NULL there."""

    def __init__(self, spec: HoldBackSpec) -> None:
        self._spec = spec
        self._waiting: list[Change] = []

    def step(self, clock: Clock, changes: Sequence[Change]) -> list[Change]:
        """The rows that come out, in order."""
        rows = [*self._waiting, *sorted(changes, key=lambda change: (change.place, change.weight))]
        self._waiting = [row for row in rows if not self._free(row, clock)]
        return [row for row in rows if self._free(row, clock)]

    def _free(self, change: Change, clock: Clock) -> bool:
        tests = self._spec.tests
        return all(change.row[test.column] is None or passing(test, change.row, clock.watermarks) for test in tests)


class While:
    """DURING: all rows that ever came, of which some are there."""

    def __init__(self, spec: TemporalFilterSpec) -> None:
        self._spec = spec
        self._rows: Counter[tuple[Row, int | None, int | None]] = Counter()

    def step(self, changes: Sequence[Change]) -> None:
        for change in changes:
            since, until = (change.row[name] if name else None for name in (self._spec.since, self._spec.until))
            self._rows[picked(change.row, self._spec.columns), since, until] += change.weight

    def content(self, time_us: int) -> Counter[Row]:
        found: Counter[Row] = Counter()
        for (row, since, until), count in self._rows.items():
            if (since is None or since <= time_us) and (until is None or time_us < until):
                found[row] += count
        return Counter({row: count for row, count in found.items() if count})

    def next_us(self, time_us: int) -> int | None:
        """When the content changes next by itself."""
        live = [(since, until) for (_, since, until), count in self._rows.items() if count]
        sound = [pair for pair in live if pair[0] is None or pair[1] is None or pair[0] < pair[1]]
        return min((edge for pair in sound for edge in pair if edge is not None and edge > time_us), default=None)
