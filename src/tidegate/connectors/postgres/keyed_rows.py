"""Changes on their way to a table: rows that come and keys that go."""

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
"""The rows of some keys as of one moment, without those that are not there."""


class Row(NamedTuple):
    """A row that comes, or (weight -1) one of which only the key is known, that goes. `before` is the key that it had
    until now, if that was another one."""

    weight: int
    cells: tuple[Cell, ...]
    before: Key | None = None


class TableBuffer:
    """The rows of one relation, those of many in a compact form. Changes that were committed before `since` are not
    among them."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.since = 0
        self.partial = False
        self._rows: list[Row] = []
        self._parts: list[Rows] = []
        self._rejected: list[RejectedRow] = []
        self._places: list[int] = []
        self._oids: list[int] = []
        self._other_forms: list[tuple[int, int]] = []
        self._untold: Error | None = None
        shown = names(spec.columns)
        self._key = [shown.index(name) for name in spec.key]
        fields = [pa.field(column.name, arrow_type(column.type)) for column in spec.columns]
        self._schema = pa.schema([*fields, pa.field(WEIGHT, pa.int64())])

    def follow(self, table: Table) -> None:
        """The table is like this from here on."""
        there = [column.name for column in table.columns]
        origin, relation = f"table {table.schema}.{table.name}", self.spec.relation
        further = f"DROP and CREATE {relation} again"
        self._places = [column_index(column.name, there, origin, relation, further) for column in self.spec.columns]
        self._oids = [table.columns[place].oid for place in self._places]
        others = (values.BOOL, values.BLANK_PADDED)
        self._other_forms = [(at, oid) for at, oid in enumerate(self._oids) if oid in others]
        self._untold = self._blind(table)

    def _blind(self, table: Table) -> Error | None:
        """What is wrong if changes of the table do not say which row they are about."""
        if all(table.columns[self._places[at]].key for at in self._key):
            return None
        told = ", ".join(column.name for column in table.columns if column.key)
        relation, name = self.spec.relation, quoted(table.schema, table.name)
        return make(
            "PIPELINE_FAILED",
            message=f"{relation} has the key ({', '.join(self.spec.key)}), but table {name} told rows that changed by"
            f" ({told})",
            detail="its REPLICA IDENTITY was changed",
            hint=f"ALTER TABLE {name} REPLICA IDENTITY FULL, unless that is mended; then DROP and CREATE {relation}"
            " again: it is then read as a whole",
        )

    def columns(self, table: Table) -> list[str]:
        """What the relation's columns are called at the server."""
        return [table.columns[place].name for place in self._places]

    def key_columns(self, table: Table) -> list[str]:
        columns = self.columns(table)
        return [columns[place] for place in self._key]

    def add(self, change: Change) -> None:
        op, _, new, old, _ = change
        if self._untold is not None and op != "INSERT":
            raise self._untold
        if new is None:
            assert old is not None
            self._rows.append(Row(-1, self._only_key(self._key_of(old))))
        else:
            cells = self._picked(filled(new, old))
            before = None if old is None else self._key_of(old)
            self._rows.append(Row(1, cells, None if before == self._key_in(cells) else before))
            self.partial = self.partial or UNCHANGED in cells
        if len(self._rows) >= CHUNK and not self.partial:
            self._pack()

    def begin_snapshot(self, anew: bool) -> None:
        """A part says that the relation has its content now, even if that is nothing. `anew`: what it had goes."""
        if anew:
            self.truncate()
        self._parts.append((self.spec.relation, self._empty(), 1))

    def add_snapshot(self, rows: Sequence[Sequence[str | None]]) -> None:
        """Rows that were there at the beginning."""
        self._rows.extend(Row(1, self._picked(list(row))) for row in rows)
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
        """Fills in the values that were not sent: from rows that came before in the same batch, else from the server.
        Of each key only the last row stays. False: some rows were not found."""
        last, called = self._replayed()
        wanted = {key: called[key] for key, row in last.items() if UNCHANGED in row.cells}
        asked = sorted({name for chain in wanted.values() for name in chain}, key=repr)
        there = {self._key_in(row): row for row in map(self._spoken, lookup(asked))} if asked else {}
        for key, chain in wanted.items():
            sent = next((there[name] for name in reversed(chain) if name in there), None)
            if sent is None:
                return False
            last[key] = Row(1, _completed(last[key].cells, sent))
        self._rows, self.partial = list(last.values()), False
        return True

    def _replayed(self) -> tuple[dict[Key, Row], dict[Key, list[Key]]]:
        """The last row of each key, with what can be known of it without asking; and the keys that a row with values
        that were not sent has had, one after the other."""
        last: dict[Key, Row] = {}
        called: dict[Key, list[Key]] = {}
        for row in self._rows:
            key = self._key_in(row.cells)
            previous = key if row.before is None else row.before
            known, names_before = last.get(previous), called.pop(previous, [previous])
            cells = row.cells
            if UNCHANGED in cells:
                called[key] = [*names_before, key]
                cells = _completed(cells, known.cells) if known is not None and known.weight > 0 else cells
            if row.before is not None:
                last[row.before] = Row(-1, self._only_key(row.before))
            last[key] = Row(row.weight, cells)
        return last, called

    def take(self) -> tuple[list[Rows], list[RejectedRow]]:
        """All that came since the last time."""
        assert not self.partial
        self._pack()
        parts, rejected = _joined(self._parts), self._rejected
        self.clear()
        return parts, rejected

    def clear(self) -> None:
        self._rows, self._parts, self._rejected, self.partial = [], [], [], False

    def _picked(self, cells: Cells) -> tuple[Cell, ...]:
        return self._spoken([cells[place] for place in self._places])

    def _spoken(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Values in the form that the relation has them in."""
        if not self._other_forms:
            return tuple(cells)
        found = list(cells)
        for at, oid in self._other_forms:
            cell = found[at]
            if isinstance(cell, str):
                found[at] = values.spoken([cell], oid)[0]
        return tuple(found)

    def _key_in(self, cells: Sequence[Cell]) -> Key:
        return tuple(cells[place] for place in self._key)

    def _key_of(self, cells: Cells) -> Key:
        return self._key_in(self._picked(cells))

    def _only_key(self, key: Key) -> tuple[Cell, ...]:
        cells: list[Cell] = [None] * len(self.spec.columns)
        for place, value in zip(self._key, key, strict=True):
            cells[place] = value
        return tuple(cells)

    def _empty(self) -> pa.Table:
        return self._schema.empty_table()

    def _pack(self) -> None:
        if not self._rows:
            return
        rows = list(self._apart(self._rows))
        self._rows = []
        weights = [row.weight for row in rows]
        columns: list[list[str | None]] = [list(column) for column in zip(*(row.cells for row in rows), strict=True)]
        table = self._table(columns, weights)
        if table.num_rows:
            self._parts.append((self.spec.relation, table, 1))

    def _apart(self, rows: Iterable[Row]) -> Iterable[Row]:
        """A row under a new key is one that goes and one that comes. A key with NULL in it was never there to go."""
        for row in rows:
            if row.before is not None and None not in row.before:
                yield Row(-1, self._only_key(row.before))
            if row.weight > 0 or all(row.cells[place] is not None for place in self._key):
                yield row

    def _table(self, columns: Sequence[list[str | None]], weights: list[int]) -> pa.Table:
        """A row that cannot be of the relation is rejected, and leaves it."""
        arrays, wrong = typed(self.spec, columns)
        shown, gone = names(self.spec.columns), set[int]()
        for place, problem in sorted(wrong.items()):
            if weights[place] > 0:
                raw = values.row_text(shown, self._oids, [said[place] for said in columns])
                self._rejected.append(RejectedRow(self.spec.relation, "MALFORMED_ROW", problem, raw))
                weights[place] = -1
            if not all(arrays[at][place].is_valid for at in self._key):
                gone.add(place)
        table = pa.Table.from_arrays([*arrays, pa.array(weights, pa.int64())], schema=self._schema)
        return table.take([at for at in range(len(weights)) if at not in gone]) if gone else table


def _completed(cells: Sequence[Cell], known: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(there if cell is UNCHANGED else cell for cell, there in zip(cells, known, strict=True))


def _joined(parts: Sequence[Rows]) -> list[Rows]:
    """Parts that follow each other and are of the same kind are one."""
    kinds = groupby(parts, key=lambda part: (part[0], part[2]))
    return [(name, pa.concat_tables([table for _, table, _ in same]), weight) for (name, weight), same in kinds]
