"""A buffer of changes of one table: rows to insert and keys to delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from tidegate.connectors.contract import RejectedRow, Rows, SourceSpec
from tidegate.connectors.postgres import values
from tidegate.connectors.postgres.client import quoted
from tidegate.connectors.postgres.events import filled
from tidegate.connectors.postgres.pgoutput import UNCHANGED, Cell, Cells, Change, Table
from tidegate.connectors.postgres.values import column_index, typed
from tidegate.core.columns import WEIGHT
from tidegate.core.schema import names
from tidegate.core.types import arrow_type
from tidegate.errors import Error, make

CHUNK = 20_000
Key = tuple[Cell, ...]
Lookup = Callable[[Sequence[Key]], Iterable[Sequence[str | None]]]
"""Returns the rows of some keys in one snapshot, without keys that do not exist."""


class Row(NamedTuple):
    """A row to insert, or (weight -1) one to delete, of which only the key is known. `before` is its previous key, if
    that was another one."""

    weight: int
    cells: tuple[Cell, ...]
    before: Key | None = None


class TableBuffer:
    """The changed rows of one relation, packed into tables as they become many. Transactions committed before `since`
    are not added."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.since = 0
        self.partial = False
        self._rows: list[Row] = []
        self._parts: list[Rows] = []
        self._rejected: list[RejectedRow] = []
        self._indexes: list[int] = []
        self._oids: list[int] = []
        self._other_forms: list[tuple[int, int]] = []
        self._unidentified: Error | None = None
        column_names = names(spec.columns)
        self._key = [column_names.index(name) for name in spec.key]
        fields = [pa.field(column.name, arrow_type(column.type)) for column in spec.columns]
        self._schema = pa.schema([*fields, pa.field(WEIGHT, pa.int64())])

    def follow(self, table: Table) -> None:
        """Use this definition of the table for the following changes."""
        existing = [column.name for column in table.columns]
        origin, relation = f"table {table.schema}.{table.name}", self.spec.relation
        further = f"DROP and CREATE {relation} again"
        self._indexes = [column_index(column.name, existing, origin, relation, further) for column in self.spec.columns]
        self._oids = [table.columns[index].oid for index in self._indexes]
        others = (values.BOOL, values.BLANK_PADDED)
        self._other_forms = [(at, oid) for at, oid in enumerate(self._oids) if oid in others]
        self._unidentified = self._check_identity(table)

    def _check_identity(self, table: Table) -> Error | None:
        """The error for changes of the table that do not identify their row, else None."""
        if all(table.columns[self._indexes[at]].key for at in self._key):
            return None
        identifying = ", ".join(column.name for column in table.columns if column.key)
        relation, name = self.spec.relation, quoted(table.schema, table.name)
        return make(
            "PIPELINE_FAILED",
            message=f"{relation} has the key ({', '.join(self.spec.key)}), but table {name} told rows that changed by"
            f" ({identifying})",
            detail="its REPLICA IDENTITY was changed",
            hint=f"ALTER TABLE {name} REPLICA IDENTITY FULL, unless that is mended; then DROP and CREATE {relation}"
            " again: it is then read as a whole",
        )

    def columns(self, table: Table) -> list[str]:
        """The names of the relation's columns at the server."""
        return [table.columns[index].name for index in self._indexes]

    def key_columns(self, table: Table) -> list[str]:
        columns = self.columns(table)
        return [columns[index] for index in self._key]

    def add(self, change: Change) -> None:
        op, _, new, old, _ = change
        if self._unidentified is not None and op != "INSERT":
            raise self._unidentified
        if new is None:
            assert old is not None
            self._rows.append(Row(-1, self._only_key(self._key_of(old))))
        else:
            cells = self._select_cells(filled(new, old))
            before = None if old is None else self._key_of(old)
            self._rows.append(Row(1, cells, None if before == self._key_in(cells) else before))
            self.partial = self.partial or UNCHANGED in cells
        if len(self._rows) >= CHUNK and not self.partial:
            self._pack()

    def begin_snapshot(self, anew: bool) -> None:
        """Add an empty part: the relation is loaded even if it has no rows. `anew`: delete its earlier rows."""
        if anew:
            self.truncate()
        self._parts.append((self.spec.relation, self._empty(), 1))

    def add_snapshot(self, rows: Sequence[Sequence[str | None]]) -> None:
        """Add rows of the initial load."""
        self._rows.extend(Row(1, self._select_cells(list(row))) for row in rows)
        self._pack()

    def truncate(self) -> None:
        """Delete all rows, as a part of weight 0. Of the changes before only the rejected rows are kept."""
        if not self.partial:
            self._pack()
        rejected = self._rejected
        self.clear()
        self._rejected = rejected
        self._parts.append((self.spec.relation, self._empty(), 0))

    def complete(self, lookup: Lookup) -> bool:
        """Fill in values that were not sent: from earlier rows of the batch, else from the server. Only the last row of
        each key is kept. False if some rows were not found."""
        last, called = self._replay()
        incomplete = {key: called[key] for key, row in last.items() if UNCHANGED in row.cells}
        keys = sorted({name for chain in incomplete.values() for name in chain}, key=repr)
        existing = {self._key_in(row): row for row in map(self._converted, lookup(keys))} if keys else {}
        for key, chain in incomplete.items():
            current = next((existing[name] for name in reversed(chain) if name in existing), None)
            if current is None:
                return False
            last[key] = Row(1, _completed(last[key].cells, current))
        self._rows, self.partial = list(last.values()), False
        return True

    def _replay(self) -> tuple[dict[Key, Row], dict[Key, list[Key]]]:
        """Return the last row of each key, completed from earlier rows of the batch; and for rows with values that were
        not sent, the keys that they had one after the other."""
        last: dict[Key, Row] = {}
        called: dict[Key, list[Key]] = {}
        for row in self._rows:
            key = self._key_in(row.cells)
            previous = key if row.before is None else row.before
            earlier, names_before = last.get(previous), called.pop(previous, [previous])
            cells = row.cells
            if UNCHANGED in cells:
                called[key] = [*names_before, key]
                cells = _completed(cells, earlier.cells) if earlier is not None and earlier.weight > 0 else cells
            if row.before is not None:
                last[row.before] = Row(-1, self._only_key(row.before))
            last[key] = Row(row.weight, cells)
        return last, called

    def take(self) -> tuple[list[Rows], list[RejectedRow]]:
        """Return everything added since the last call."""
        assert not self.partial
        self._pack()
        parts, rejected = _joined(self._parts), self._rejected
        self.clear()
        return parts, rejected

    def clear(self) -> None:
        self._rows, self._parts, self._rejected, self.partial = [], [], [], False

    def _select_cells(self, cells: Cells) -> tuple[Cell, ...]:
        return self._converted([cells[index] for index in self._indexes])

    def _converted(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Convert values to the form that the relation has."""
        if not self._other_forms:
            return tuple(cells)
        converted = list(cells)
        for at, oid in self._other_forms:
            cell = converted[at]
            if isinstance(cell, str):
                converted[at] = values.cast_to_text([cell], oid)[0]
        return tuple(converted)

    def _key_in(self, cells: Sequence[Cell]) -> Key:
        return tuple(cells[index] for index in self._key)

    def _key_of(self, cells: Cells) -> Key:
        return self._key_in(self._select_cells(cells))

    def _only_key(self, key: Key) -> tuple[Cell, ...]:
        cells: list[Cell] = [None] * len(self.spec.columns)
        for index, value in zip(self._key, key, strict=True):
            cells[index] = value
        return tuple(cells)

    def _empty(self) -> pa.Table:
        return self._schema.empty_table()

    def _pack(self) -> None:
        if not self._rows:
            return
        rows = list(self._split(self._rows))
        self._rows = []
        weights = [row.weight for row in rows]
        columns: list[list[str | None]] = [list(column) for column in zip(*(row.cells for row in rows), strict=True)]
        table = self._table(columns, weights)
        if table.num_rows:
            self._parts.append((self.spec.relation, table, 1))

    def _split(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Split a row with a new key into a delete and an insert. A key with NULL never existed."""
        for row in rows:
            if row.before is not None and None not in row.before:
                yield Row(-1, self._only_key(row.before))
            if row.weight > 0 or all(row.cells[index] is not None for index in self._key):
                yield row

    def _table(self, columns: Sequence[list[str | None]], weights: list[int]) -> pa.Table:
        """Convert rows to a table. A row that does not fit the relation is rejected, and its key deleted."""
        arrays, problems = typed(self.spec, columns)
        column_names, dropped = names(self.spec.columns), set[int]()
        for index, problem in sorted(problems.items()):
            if weights[index] > 0:
                raw = values.row_text(column_names, self._oids, [column[index] for column in columns])
                self._rejected.append(RejectedRow(self.spec.relation, "MALFORMED_ROW", problem, raw))
                weights[index] = -1
            if not all(arrays[at][index].is_valid for at in self._key):
                dropped.add(index)
        table = pa.Table.from_arrays([*arrays, pa.array(weights, pa.int64())], schema=self._schema)
        return table.take([at for at in range(len(weights)) if at not in dropped]) if dropped else table


def _completed(cells: Sequence[Cell], earlier: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(existing if cell is UNCHANGED else cell for cell, existing in zip(cells, earlier, strict=True))


def _joined(parts: Sequence[Rows]) -> list[Rows]:
    """Join adjacent parts of the same kind."""
    kinds = groupby(parts, key=lambda part: (part[0], part[2]))
    return [(name, pa.concat_tables([table for _, table, _ in same]), weight) for (name, weight), same in kinds]
