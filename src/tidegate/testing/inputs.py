"""What an input relation accepts, written as naively as it can be: the rows that the oracle works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.core.schema import Schema
from tidegate.core.types import Type, parse_type
from tidegate.testing.bags import consolidated
from tidegate.testing.spec.compare import canonical
from tidegate.testing.time.frontiers import Time

INSERT, DELETE, TOMBSTONE = "insert", "delete", "tombstone"


@dataclass(frozen=True)
class Given:
    """One row as it is given to a relation; a tombstone has the key's values only."""

    action: str
    row: tuple[Any, ...]


@dataclass
class Input:
    """A source or a table: `rows` are those it holds (a source: all it ever had), oldest first.

    `loses_order` is set once a row was taken away, which makes the order of arrival a matter of opinion. `changes` are
    those of the last micro-batch, `late` all rows that were refused at the door, `unknown` why the model lost track."""

    name: str
    columns: Schema
    source: bool
    key: tuple[str, ...] = ()
    append_only: bool = False
    time: Time = field(default_factory=Time)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    pending: list[Given] = field(default_factory=list)
    held: list[Given] = field(default_factory=list)
    changes: list[tuple[tuple[Any, ...], int]] = field(default_factory=list)
    late: list[tuple[Any, ...]] = field(default_factory=list)
    loses_order: bool = False
    unknown: str | None = None

    @cached_property
    def kinds(self) -> tuple[Type, ...]:
        return tuple(parse_type(column.type) for column in self.columns)

    def place(self, column: str) -> int:
        return [one.name.lower() for one in self.columns].index(column.lower())

    def give(self, given: Iterable[Given]) -> None:
        """Rows that will count in the next step."""
        self.pending.extend(given)

    def step(self, clock: int = 0) -> bool:
        """One micro-batch: applies what was given, and what was held back and is free now, in order. Whether there was
        anything."""
        given, self.pending = self.pending, []
        self.changes = []
        arrived = self._let_through(given)
        for one in arrived:
            self._apply(one)
        # Of a key only the last row of a micro-batch is ever seen; in a bag every row is.
        changes = consolidated(self.changes, self.kinds) if self.key else self.changes
        came = [row for row, weight in changes if weight > 0]
        self.time.accept(came, clock, bool(arrived))
        return bool(given or arrived)

    @property
    def waiting(self) -> bool:
        """Whether rows were given or freed that count in the next micro-batch."""
        return bool(self.pending) or any(not self._holds(one) for one in self.held)

    def _let_through(self, given: list[Given]) -> list[Given]:
        if not self.time.holds:
            return given
        waiting = [*self.held, *given]
        self.held = [one for one in waiting if self._holds(one)]
        free = [one for one in waiting if not self._holds(one)]
        for one in given:
            for hold in self.time.holds if one.action != TOMBSTONE else ():
                hold.see(one.row[hold.column])
        return free

    def _holds(self, given: Given) -> bool:
        if self.key and given.action != INSERT:
            self.unknown = f"{self.name} holds back the deletes of keys"
            return False
        return any(hold.holds(given.row[hold.column]) for hold in self.time.holds)

    def _apply(self, given: Given) -> None:
        if self.key:
            self._apply_keyed(given)
        elif self.time.late(given.row):
            self.late.append(given.row)
        elif self.source or given.action == INSERT:
            self._add(given.row)
        else:
            self._remove(given.row)

    def _apply_keyed(self, given: Given) -> None:
        key = self._key_of(given)
        if None in key:
            return
        old = [index for index, row in enumerate(self.rows) if self._identity(self._pick(row)) == self._identity(key)]
        if given.action == INSERT and (self.append_only and old):
            return
        touched = [self.rows[index] for index in old] + ([given.row] if given.action == INSERT else [])
        if any(self.time.late(row) for row in touched):
            self.late.append(given.row)
            return
        for index in old:
            self._take(index)
        if given.action == INSERT:
            self._add(given.row)

    def _add(self, row: tuple[Any, ...]) -> None:
        self.rows.append(row)
        self.changes.append((row, 1))

    def _take(self, index: int) -> None:
        self.changes.append((self.rows[index], -1))
        del self.rows[index]
        self.loses_order = True

    def _remove(self, row: tuple[Any, ...]) -> None:
        wanted = self._whole(row)
        found = next((index for index, one in enumerate(self.rows) if self._whole(one) == wanted), None)
        if found is not None:
            self._take(found)

    def _key_of(self, given: Given) -> tuple[Any, ...]:
        return given.row if given.action == TOMBSTONE else self._pick(given.row)

    def _pick(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row[index] for index in self._key_places())

    def _key_places(self) -> list[int]:
        names = [column.name.lower() for column in self.columns]
        return [names.index(name.lower()) for name in self.key]

    def _identity(self, key: Sequence[Any]) -> tuple[Any, ...]:
        kinds = self.kinds
        return tuple(canonical(value, kinds[index]) for value, index in zip(key, self._key_places(), strict=True))

    def _whole(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(canonical(value, kind) for value, kind in zip(row, self.kinds, strict=True))
