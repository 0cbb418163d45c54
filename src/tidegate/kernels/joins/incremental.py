"""The incremental join: inner, outer, semi and anti, exact under changes of both sides.

The rows of each side are stored with their weights. Where single rows are emitted, depending on whether they have a
match (padded rows of an outer join, all rows of a semi or anti join), the number of their matches is stored as well.
So a step reads the groups of the *other* side that its changes fall into, and none of their own side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, JoinSpec
from tidegate.kernels.api import Clock, Delta, NeverLate, State, Table
from tidegate.kernels.evicting import StateTable
from tidegate.kernels.frames import add_weights, consolidate, nonempty, normalise, row_mask, types_of
from tidegate.kernels.joins.pairs import JoinCondition, consolidate_output, join_pairs, needed_columns, pad_rows
from tidegate.kernels.ranking import Ints
from tidegate.kernels.top_n import ROW_HASH

MATCHES = "__matches"
"""How many rows of the other side a stored row matches. If that side never retracts, it may be too low once it is not
zero."""

SIDES = ("left", "right")
_ONE = pl.lit(1, pl.Int64).alias(WEIGHT)


@dataclass(frozen=True)
class JoinKind:
    """The output of a join: `pairs` of matches; and single rows of each side: unmatched ones (False), matched ones
    (True) or none (None)."""

    pairs: bool
    single: tuple[bool | None, bool | None]


KINDS = {
    INNER: JoinKind(True, (None, None)),
    LEFT: JoinKind(True, (False, None)),
    RIGHT: JoinKind(True, (None, False)),
    FULL: JoinKind(True, (False, False)),
    SEMI: JoinKind(False, (True, None)),
    ANTI: JoinKind(False, (False, None)),
}


class Join(NeverLate):
    """The kernel. Rows that can produce no output are dropped on arrival."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec, self.kind = spec, KINDS[spec.kind]
        self.columns = [list(names) for names in needed_columns(spec)]
        self.condition = JoinCondition(spec.keys, spec.conditions)
        keys = [pair.left for pair in spec.keys], [pair.right for pair in spec.keys]
        self._key_only = [set(columns) <= set(key) for columns, key in zip(self.columns, keys, strict=True)]

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Each row once. If only the key of a row is needed, rows are looked up by it."""
        hashes = (HASH,) if self._key_only[port] else (HASH, ROW_HASH)
        hash_columns = [name for name in hashes if name in rows.columns]
        if self.kind.single[port] is not False:
            rows = self.condition.only_matchable(port, rows)
        return consolidate(normalise(rows, self.columns[port]), [*hash_columns, *self.columns[port]])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        changes = [None if rows is None else nonempty(self.combine(port, rows)) for port, rows in enumerate(inputs)]
        return Delta() if all(rows is None for rows in changes) else Delta(_JoinStep(self, changes, state).changes())

    def tables(self) -> list[StateTable]:
        return [
            StateTable(name, columns, side)
            for side, (name, columns) in enumerate(zip(SIDES, self.columns, strict=True))
        ]

    def content(self, state: State) -> pl.DataFrame | None:
        tables = [state.find_table(name, columns) for name, columns in zip(SIDES, self.columns, strict=True)]
        left, right = sides = [None if table is None else nonempty(table.scan()) for table in tables]
        frames = []
        if self.kind.pairs and left is not None and right is not None:
            frames.append(join_pairs(self.spec.outputs, left, right, self.condition.pairs(left, right)))
        for side, rows, matched in zip((0, 1), sides, self.kind.single, strict=True):
            if rows is not None and matched is not None:
                emitted = rows.filter((pl.col(MATCHES) > 0) == matched)
                frames.append(pad_rows(self.spec.outputs, side, emitted, _types(tables[1 - side])))
        return consolidate_output(frames)


class _Rows:
    """Rows of a side; `new_matches` counts the matches of each in this step."""

    def __init__(self, frame: pl.DataFrame | None) -> None:
        self.frame = pl.DataFrame(schema={WEIGHT: pl.Int64()}) if frame is None else frame
        self.weights: Ints = self.frame[WEIGHT].to_numpy()
        self.new_matches: Ints = np.zeros(self.frame.height, dtype=np.int64)

    def __bool__(self) -> bool:
        return not self.frame.is_empty()


class _JoinStep:
    """One step. `fresh` are the changes of each side, `near` its stored rows in the groups that the other side's
    changes fall into. Changes are matched with all rows of the other side after the step, which gives the number of
    their matches; stored rows are matched with changes, which gives the difference of theirs."""

    def __init__(self, join: Join, changes: Sequence[pl.DataFrame | None], state: State) -> None:
        self._join, self._spec, self._inputs, self._state = join, join.spec, changes, state
        self._fresh = [_Rows(self._changed(side)) for side in (0, 1)]
        self._near = [_Rows(self._stored(side)) for side in (0, 1)]

    def changes(self) -> pl.DataFrame | None:
        frames = self._pairs()
        for side, matched in enumerate(self._join.kind.single):
            if matched is not None:
                frames += self._singles(side, matched)
                self._write_near(side)
            if self._fresh[side] and not self._decides(side):
                self._write_fresh(side)
        return consolidate_output(frames)

    def _table(self, side: int) -> Table | None:
        """The table of a side; None if it is empty and has no input."""
        rows, columns = self._inputs[side], self._join.columns[side]
        if rows is None:
            return self._state.find_table(SIDES[side], columns)
        counts = [WEIGHT] if self._join.kind.single[side] is None else [WEIGHT, MATCHES]
        types = {**types_of(rows, columns), **dict.fromkeys(counts, pl.Int64())}
        return self._state.table(SIDES[side], types, columns, ROW_HASH if ROW_HASH in rows.columns else None)

    def _changed(self, side: int) -> pl.DataFrame | None:
        rows, table = self._inputs[side], self._table(side) if self._decides(side) else None
        if rows is None or table is None:
            return rows
        return _appeared(rows, table) if self._spec.append_only[side] else _turned(rows, table)

    def _decides(self, side: int) -> bool:
        """True if rows of a side only decide about rows of the other side: then each counts once."""
        return side == 1 and not self._join.kind.pairs

    def _stored(self, side: int) -> pl.DataFrame | None:
        other = self._fresh[1 - side]
        table = self._table(side) if other else None
        if table is None:
            return None
        rows = table.groups(self._join.condition.only_matchable(1 - side, other.frame)[HASH].unique())
        return rows.with_columns(_ONE) if self._decides(side) else rows

    def _pairs(self) -> list[pl.DataFrame]:
        """Matches rows and returns the output of pairs."""
        (left, right), (near_left, near_right) = self._fresh, self._near
        frames = []
        for one, other in ((left, near_right), (near_left, right), (left, right)):
            for pairs in self._join.condition.blocks(one.frame, other.frame) if one and other else ():
                np.add.at(one.new_matches, pairs.left, other.weights[pairs.right])
                np.add.at(other.new_matches, pairs.right, one.weights[pairs.left])
                if self._join.kind.pairs:
                    frames.append(join_pairs(self._spec.outputs, one.frame, other.frame, pairs))
        return frames

    def _singles(self, side: int, matched: bool) -> Iterator[pl.DataFrame]:
        """Single rows that are emitted or retracted."""
        fresh, near = self._fresh[side], self._near[side]
        if fresh:
            yield self._padded(side, fresh, ((fresh.new_matches > 0) == matched).astype(np.int64))
        if near:
            before, after = self._matches(near)
            yield self._padded(side, near, ((after > 0) == matched).astype(np.int64) - ((before > 0) == matched))

    def _padded(self, side: int, rows: _Rows, times: Ints) -> pl.DataFrame:
        weights = rows.weights * times
        emitted = rows.frame.with_columns(pl.Series(WEIGHT, weights)).filter(pl.Series(weights != 0))
        return pad_rows(self._spec.outputs, side, emitted, _types(self._table(1 - side)))

    def _matches(self, near: _Rows) -> tuple[Ints, Ints]:
        """The number of matches of each stored row, before and after."""
        before: Ints = near.frame[MATCHES].to_numpy()
        return before, before + near.new_matches

    def _write_near(self, side: int) -> None:
        """Stores the rows whose number of matches changed. If the other side never retracts, only the first match
        counts."""
        near = self._near[side]
        table = self._table(side) if near else None
        if table is None:
            return
        before, after = self._matches(near)
        changed = (near.new_matches != 0) & ((before == 0) | (not self._spec.append_only[1 - side]))
        rows = near.frame.with_columns(pl.Series(MATCHES, after)).filter(pl.Series(changed))
        if self._forgets():
            table.write(None, rows, -rows.height)
        else:
            table.write(rows, grown=0)

    def _write_fresh(self, side: int) -> None:
        table, fresh = self._table(side), self._fresh[side]
        assert table is not None
        if self._join.kind.single[side] is None:
            add_weights(fresh.frame, table)
            return
        rows = fresh.frame.with_columns(pl.Series(MATCHES, fresh.new_matches))
        add_weights(rows.filter(pl.col(MATCHES) == 0) if self._forgets() else rows, table)

    def _forgets(self) -> bool:
        """True if a row with a match can never be emitted again, so that it need not be stored."""
        return self._spec.kind == ANTI and self._spec.append_only[1]


def _appeared(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """Of rows that are never retracted those that were not there before, once each; these are stored."""
    known, _ = table.match(rows)
    fresh = rows.filter(pl.Series(~row_mask(rows.height, known))).with_columns(_ONE)
    table.write(fresh, grown=fresh.height)
    return fresh


def _turned(rows: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The rows that are there now and were not (weight 1), or the other way round (-1); all are stored."""
    old, new = add_weights(rows, table)
    turned = (new > 0).cast(pl.Int64) - (old > 0).cast(pl.Int64)
    return rows.with_columns(turned.alias(WEIGHT)).filter(pl.col(WEIGHT) != 0)


def _types(table: Table | None) -> Mapping[str, pl.DataType]:
    return {} if table is None else table.schema
