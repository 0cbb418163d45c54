"""What an input relation accepts, written as naively as it can be: the rows that the oracle works on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.catalog.schema import Schema
from tidegate.testing.spec.compare import canonical
from tidegate.testing.spec.types import Type, parse_type

INSERT, DELETE, TOMBSTONE = "insert", "delete", "tombstone"


@dataclass(frozen=True)
class Given:
    """One row as it is given to a relation; a tombstone has the key's values only."""

    action: str
    row: tuple[Any, ...]


@dataclass
class Input:
    """A source or a table: `rows` are those it holds (a source: all it ever had), oldest first.

    `loses_order` is set once a row was taken away, which makes the order of arrival a matter of opinion."""

    name: str
    columns: Schema
    source: bool
    key: tuple[str, ...] = ()
    append_only: bool = False
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    pending: list[Given] = field(default_factory=list)
    loses_order: bool = False

    @property
    def kinds(self) -> tuple[Type, ...]:
        return tuple(parse_type(column.type) for column in self.columns)

    def give(self, given: Iterable[Given]) -> None:
        """Rows that will count in the next step."""
        self.pending.extend(given)

    def step(self) -> bool:
        """Applies what was given, in order. Whether anything was."""
        given, self.pending = self.pending, []
        for one in given:
            self._apply(one)
        return bool(given)

    def _apply(self, given: Given) -> None:
        if self.source:
            self.rows.append(given.row)
        elif self.key:
            self._apply_keyed(given)
        elif given.action == INSERT:
            self.rows.append(given.row)
        else:
            self._remove(given.row)

    def _apply_keyed(self, given: Given) -> None:
        key = self._key_of(given)
        if None in key:
            return
        old = [index for index, row in enumerate(self.rows) if self._identity(self._pick(row)) == self._identity(key)]
        if given.action == INSERT and (self.append_only and old):
            return
        for index in old:
            del self.rows[index]
            self.loses_order = True
        if given.action == INSERT:
            self.rows.append(given.row)

    def _remove(self, row: tuple[Any, ...]) -> None:
        wanted = self._whole(row)
        found = next((index for index, one in enumerate(self.rows) if self._whole(one) == wanted), None)
        if found is not None:
            del self.rows[found]
            self.loses_order = True

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
