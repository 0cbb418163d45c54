"""Rows with how often each is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.core.types import Type
from tidegate.testing.spec.compare import canonical

Row = tuple[Any, ...]
Change = tuple[Row, int]


class Bag:
    """A multiset of rows of these types; rows are equal when their values are, whatever Python shapes they came in."""

    def __init__(self, kinds: Sequence[Type], rows: Iterable[Row] = ()) -> None:
        self.kinds = tuple(kinds)
        self._rows: dict[Row, tuple[Row, int]] = {}
        for row in rows:
            self.add(row, 1)

    def add(self, row: Row, weight: int) -> bool:
        """Puts a row in or takes it out; whether it was there to be taken out."""
        key = tuple(canonical(value, kind) for value, kind in zip(row, self.kinds, strict=True))
        present = self._rows.get(key, (row, 0))[1]
        if present + weight < 0:
            return False
        if present + weight == 0:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (row, present + weight)
        return True

    def rows(self) -> list[Row]:
        return [row for row, count in self._rows.values() for _ in range(count)]

    def changes_since(self, before: Bag | None) -> list[Change]:
        """What has to be added to `before` to have this, retractions first."""
        old = before._rows if before is not None else {}
        found = []
        for key in {**old, **self._rows}:
            weight = self._rows.get(key, ((), 0))[1] - old.get(key, ((), 0))[1]
            if weight:
                found.append((self._rows.get(key, old.get(key))[0], weight))  # type: ignore[index]
        return sorted(found, key=lambda change: change[1])

    def __bool__(self) -> bool:
        return bool(self._rows)


def consolidated(changes: Iterable[Change], kinds: Sequence[Type]) -> list[Change]:
    """The changes of a micro-batch as one per row: what cancels out is gone."""
    weights: dict[Row, tuple[Row, int]] = {}
    for row, weight in changes:
        key = tuple(canonical(value, kind) for value, kind in zip(row, kinds, strict=True))
        weights[key] = (row, weights.get(key, (row, 0))[1] + weight)
    return sorted(((row, weight) for row, weight in weights.values() if weight), key=lambda change: change[1])
