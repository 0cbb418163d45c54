"""The lookup join: rows of a stream, each with the row that a keyed table has for it in that step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import LEFT, LookupJoinSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State, Table
from tidegate.kernels.frames import consolidate, find_rows, nonempty, normalise, types_of
from tidegate.kernels.joins.pairs import (
    JoinCondition,
    Pairs,
    consolidate_output,
    join_pairs,
    needed_columns,
    pad_rows,
    select_pairs,
)

_ONE = pl.lit(1, pl.Int64).alias(WEIGHT)


class Lookup(NeverLate):
    """The kernel. It stores the table by its key, and nothing of the stream."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._spec = spec
        self._columns = [list(names) for names in needed_columns(spec)]
        self._condition = JoinCondition(spec.keys, spec.conditions)
        self._keys = {pair.right: pair.left for pair in spec.keys}
        self._by_key_alone = not spec.conditions and len(self._keys) == len(spec.keys)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Without rows that cannot match. Changes of the table are consolidated, unless there are no deletes: then
        every row has a different key."""
        rows = normalise(rows.select(HASH, *self._columns[port], WEIGHT), self._columns[port])
        if port == 1 or self._spec.kind != LEFT:
            rows = self._condition.only_matchable(port, rows)
        if port == 0 or (rows[WEIGHT] > 0).all():
            return rows
        return consolidate(rows, [HASH, *self._columns[port]]).select(rows.columns)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        rows, changes = (
            None if rows_ is None else nonempty(self.combine(port, rows_)) for port, rows_ in enumerate(inputs)
        )
        table = self._table(changes, state)
        answer = None if rows is None else consolidate_output(self._answers(_in_order(rows), changes, table))
        if changes is not None and table is not None:
            deleted, inserted = changes.filter(pl.col(WEIGHT) < 0), changes.filter(pl.col(WEIGHT) > 0)
            table.write(None, deleted, -deleted.height)
            table.write(inserted, None, inserted.height)
        return Delta(answer)

    def content(self, state: State) -> pl.DataFrame | None:
        """None: past output depends on past versions of the table."""
        return None

    def _table(self, changes: pl.DataFrame | None, state: State) -> Table | None:
        if changes is None:
            return state.find_table("rows", list(self._keys))
        return state.table("rows", types_of(changes, self._columns[1]), list(self._keys))

    def _answers(self, rows: pl.DataFrame, changes: pl.DataFrame | None, table: Table | None) -> Iterator[pl.DataFrame]:
        """The output: rows of the stream with rows of the table, and padded rows."""
        alone = np.ones(rows.height, dtype=np.bool_)
        for right, pairs in self._found(rows, changes, table):
            pairs = pairs if self._by_key_alone else select_pairs(pairs, self._condition.holds(rows, right, pairs))
            alone[pairs.left] = False
            yield join_pairs(self._spec.outputs, rows, right.with_columns(_ONE), pairs)
        if self._spec.kind == LEFT:
            types = {} if table is None else table.schema
            yield pad_rows(self._spec.outputs, 0, rows.filter(pl.Series(alone)), types)

    def _found(
        self, rows: pl.DataFrame, changes: pl.DataFrame | None, table: Table | None
    ) -> Iterator[tuple[pl.DataFrame, Pairs]]:
        """The rows of the table that rows of the stream find by their key: such as come in this step, and such as were
        there before and stay as they are."""
        keys = rows.select(HASH, *(pl.col(left).alias(right) for right, left in self._keys.items()))
        looked_up = np.arange(rows.height)
        if changes is not None:
            # Inserts are stored after deletes, so that the lookup of a key with both finds the insert.
            changes = changes.sort(WEIGHT)
            number = find_rows(keys, changes, list(self._keys))
            known = Pairs(looked_up[number >= 0], number[number >= 0])
            yield changes, select_pairs(known, (changes[WEIGHT] > 0).to_numpy()[known.right])
            looked_up = looked_up[number < 0]
        if table is not None:
            indexes, right = table.match(keys if len(looked_up) == rows.height else keys[looked_up])
            yield right, Pairs(looked_up[indexes], np.arange(right.height))


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows sorted by hash: to look up many is much faster in order."""
    hashes = rows[HASH].to_numpy()
    return rows if bool((hashes[1:] >= hashes[:-1]).all()) else rows[np.argsort(hashes)]
