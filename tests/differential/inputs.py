"""Sources and tables: which rows they take, and their watermarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.differential.marks import END, IDLE, START, Mark, is_below, latest, mapped
from tests.differential.pipeline import Change, Input

Row = tuple[object, ...]
Rows = Counter[Row]
Late = tuple[Row, int]
"""A late row, with +1 for an insertion and -1 for a deletion."""


class Marks:
    """The watermarks of the columns of a relation at one moment."""

    def __init__(self, marks: Mapping[str, Mark]) -> None:
        self.plain = dict(marks)

    def of(self, column: str, lag: int = 0) -> Mark:
        """The watermark of a column as it would be if the inputs were that much behind."""
        return mapped(self.plain.get(column), lambda at: at - lag)


class Relation:
    """What others see of a relation: its content, and its watermarks before and after the current pass."""

    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        self.name = name
        self.columns = columns
        self.content: Rows = Counter()
        self.before: Marks = Marks({})
        self.now: Marks = Marks({})

    def record(self, row: Row) -> dict[str, object]:
        return dict(zip(self.columns, row, strict=True))

    def origin(self, column: str) -> Any:
        """The relation and column that a column is computed from, and how; None if it is from one column alone."""
        return None


class InputState(Relation):
    def __init__(self, declared: Input, clock: int) -> None:
        super().__init__(declared.name, tuple(name for name, _ in declared.columns))
        self._declared = declared
        self._door: dict[str, Mark] = dict.fromkeys(declared.lateness, START)
        self._events: dict[str, Mark] = dict.fromkeys(declared.watermark, START)
        self._seen: dict[str, float] = dict.fromkeys(declared.hold_back, START)
        self._held: list[Change] = []
        self._created = clock
        self._last_row: int | None = None
        self._at_last_row: list[tuple[dict[str, Mark], dict[str, Mark]]] = []
        self.now = Marks(self._marks())

    @property
    def keyed(self) -> bool:
        return self._declared.kind == "keyed"

    def begin(self, clock: int) -> None:
        """Begin a pass: rows are compared with the watermarks before it. Silence moves them with the clock."""
        self.before = self.now
        self.watch(clock)

    def take(self, changes: list[Change], clock: int) -> tuple[Rows, list[Late]]:
        """The changes that count, as weights, and the late ones. A row that another one of its step replaces moves no
        watermark."""
        door = dict(self._door)
        old, late = Counter(self.content), list[Late]()
        written: list[Row] = []
        for change in self._released(changes):
            verdict = self._apply(change, door)
            if verdict == "late":
                late.append((change.row, 1 if change.action == "INSERT" else -1))
            elif verdict == "taken" and change.action == "INSERT":
                written.append(change.row)
        delta = Counter(self.content)
        delta.subtract(old)
        self._move([row for row in written if not self.keyed or delta[row] > 0], clock)
        if changes:
            self._note(clock)
        return Counter({row: weight for row, weight in delta.items() if weight}), late

    def heartbeat(self, column: str, value: int, clock: int) -> None:
        """ADVANCE: the input is not silent."""
        self.advance(column, value)
        self._note(clock)

    def _note(self, clock: int) -> None:
        self._last_row = clock
        self._at_last_row = [(marks, dict(marks)) for marks in (self._door, self._events)]

    def advance(self, column: str, value: float) -> None:
        for marks in (self._door, self._events):
            if column in marks:
                marks[column] = latest(marks[column], value)
        if column in self._seen:
            self._seen[column] = max(self._seen[column], value)

    def release(self) -> None:
        """No more rows will come: those that are held back go on."""
        self._seen = dict.fromkeys(self._seen, END)

    def end(self) -> None:
        for column in (*self._door, *self._events):
            self.advance(column, END)

    def watch(self, clock: int) -> None:
        """The watermarks after the rows, the advances and the silence."""
        timeout, since = self._declared.idle_timeout, self._last_row
        if timeout is None or clock - (self._created if since is None else since) < timeout:
            fresh = self._marks()
        elif since is None:
            fresh = {column: IDLE if mark == START else mark for column, mark in self._marks().items()}
        else:
            for marks, then in self._at_last_row:
                for column, mark in then.items():
                    marks[column] = latest(marks[column], mapped(mark, lambda at: at + clock - since))
            fresh = self._marks()
        self.now = Marks({column: latest(self.now.of(column), mark) for column, mark in fresh.items()})

    def _marks(self) -> dict[str, Mark]:
        columns = {*self._door, *self._events}
        return {column: latest(self._door.get(column), self._events.get(column)) for column in columns}

    @property
    def releases(self) -> bool:
        """True if rows that were held back can go on."""
        return any(not self._waits(change) for change in self._held)

    def _released(self, changes: Iterable[Change]) -> list[Change]:
        self._held += changes
        for column in self._seen:
            values = [self._value(change.row, column) for change in changes]
            self._seen[column] = max([self._seen[column], *(value for value in values if value is not None)])
        released = [change for change in self._held if not self._waits(change)]
        self._held = [change for change in self._held if self._waits(change)]
        return released

    def _waits(self, change: Change) -> bool:
        return any(
            (value := self._value(change.row, column)) is not None and value + delay > self._seen[column]
            for column, delay in self._declared.hold_back.items()
        )

    def _apply(self, change: Change, door: dict[str, Mark]) -> str:
        if self._declared.kind == "keyed":
            return self._apply_by_key(change, door)
        if self._late(change.row, door):
            return "late"
        if change.action != "INSERT" and not self.content[change.row]:
            return "refused"
        self.content[change.row] += 1 if change.action == "INSERT" else -1
        return "taken"

    def _apply_by_key(self, change: Change, door: dict[str, Mark]) -> str:
        key = change.row[0]
        if key is None:
            return "refused"
        stored = [row for row, count in self.content.items() if count and row[0] == key]
        insert = change.action == "INSERT"
        if (insert and self._late(change.row, door)) or any(self._late(row, door) for row in stored):
            return "late"
        for row in stored:
            del self.content[row]
        if insert:
            self.content[change.row] = 1
        return "taken"

    def _late(self, row: Row, door: dict[str, Mark]) -> bool:
        return any(is_below(self._value(row, column), mark) for column, mark in door.items())

    def _move(self, rows: list[Row], clock: int) -> None:
        ahead = self._declared.max_ahead
        for delays, marks in ((self._declared.lateness, self._door), (self._declared.watermark, self._events)):
            for column, delay in delays.items():
                values = [self._value(row, column) for row in rows]
                known = [value for value in values if value is not None and (ahead is None or value <= clock + ahead)]
                if known:
                    marks[column] = latest(marks[column], max(known) - delay)

    def _value(self, row: Row, column: str) -> int | None:
        value = row[self.columns.index(column)]
        assert value is None or isinstance(value, int)
        return value
