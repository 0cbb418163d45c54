"""Multisets of rows, and rows as Arrow tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from tidegate.core.types import Type
from tidegate.testing.spec.compare import canonical
from tidegate.testing.spec.values import pairs

Row = tuple[Any, ...]
Change = tuple[Row, int]
"""A row and its weight: positive inserts, negative deletes."""


class Bag:
    """A multiset of rows. Values of the types `kinds` are equal whatever Python type holds them; without `kinds`, rows
    are compared as Python compares them."""

    def __init__(self, kinds: Sequence[Type] | None, rows: Iterable[Row] = ()) -> None:
        self.kinds = None if kinds is None else tuple(kinds)
        self._rows: dict[Hashable, tuple[Row, int]] = {}
        for row in rows:
            self.add(row, 1)

    def add(self, row: Row, weight: int) -> bool:
        """Insert or delete copies of a row; False if there are fewer copies than should be deleted."""
        key = self._key(row)
        count = self._rows.get(key, (row, 0))[1] + weight
        if count < 0:
            return False
        if count == 0:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (row, count)
        return True

    def rows(self) -> list[Row]:
        return [row for row, count in self._rows.values() for _ in range(count)]

    def changes_since(self, before: Bag | None) -> list[Change]:
        """The changes that turn `before` into this bag, deletes first."""
        old = before._rows if before is not None else {}
        changes: list[Change] = []
        for key, (row, _) in {**old, **self._rows}.items():
            weight = self._rows.get(key, ((), 0))[1] - old.get(key, ((), 0))[1]
            if weight:
                changes.append((row, weight))
        return sorted(changes, key=_weight)

    def __bool__(self) -> bool:
        return bool(self._rows)

    def _key(self, row: Row) -> Hashable:
        return row if self.kinds is None else row_identity(row, self.kinds)


def row_identity(row: Sequence[Any], kinds: Sequence[Type]) -> Row:
    """A hashable form of a row, the same for all rows that are equal by their types."""
    return tuple(canonical(value, kind) for value, kind in zip(row, kinds, strict=True))


def consolidate(changes: Iterable[Change], kinds: Sequence[Type]) -> list[Change]:
    """The net change of each row, deletes first."""
    net: dict[Row, Change] = {}
    for row, weight in changes:
        key = row_identity(row, kinds)
        net[key] = (row, net.get(key, (row, 0))[1] + weight)
    return sorted((change for change in net.values() if change[1]), key=_weight)


def _weight(change: Change) -> int:
    return change[1]


def to_arrow(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.array([_arrow_value(row[index], field.type) for row in rows], type=field.type)
        for index, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    return pairs(value) if value is not None and pa.types.is_map(kind) else value
