"""Tables: keyed (the last write wins) or bags, and the late changes of a keyed table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.ir.specs import TableSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.api import Clock, Delta, Kernel, NeverLate, State, Table
from tidegate.kernels.frames import (
    add_weights,
    align,
    consolidate,
    describe_row,
    diff,
    errors_in_order,
    find_rows,
    nonempty,
    normalise,
    reject,
    row_mask,
    types_of,
)
from tidegate.kernels.state.sorting import Mask
from tidegate.kernels.watermarks import Watermarks, all_pass, eviction_limit, eviction_order, passes


class Lateness:
    """LATENESS on columns of a keyed table: a change is late if its row, or the row that it replaces or deletes, is
    below a watermark. Rows below a watermark on a key column cannot change any more, and are evicted."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec, self._columns = spec, list(spec.columns)
        self._by_key = [test for test in spec.lateness if test.column in spec.key]

    def with_eviction_order(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with `__h` replaced by the eviction order, if a key column has a watermark."""
        return rows.with_columns(eviction_order(rows[self._by_key[0].column], rows[HASH])) if self._by_key else rows

    def below(self, rows: pl.DataFrame, watermarks: Watermarks, tests: Sequence[WatermarkTest] | None = None) -> Mask:
        """A mask of the rows below any watermark."""
        below = np.zeros(rows.height, dtype=np.bool_)
        for test in self._spec.lateness if tests is None else tests:
            below |= passes(test, rows, watermarks).to_numpy()
        return below

    def split_late(
        self, rows: pl.DataFrame, table: Table, watermarks: Watermarks
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """The changes that are in time, and the late ones. A row written in this step is above all watermarks, so the
        row stored before the step decides for all changes of its key."""
        indexes, stored = table.match(rows)
        frozen = row_mask(rows.height, indexes[self.below(stored, watermarks)])
        inserts, dated = (rows[WEIGHT] > 0).to_numpy(), self.below(rows, watermarks, self._by_key)
        late = frozen | dated | (inserts & self.below(rows, watermarks))
        if not late.any():
            return rows, None
        old = align(rows.height, indexes, stored.select(self._columns))
        as_stored = frozen & ~inserts & ~dated
        parts = [old.with_columns(rows[WEIGHT]).filter(pl.Series(as_stored))]
        parts.append(rows.select(*self._columns, WEIGHT).filter(pl.Series(late & ~as_stored)))
        return rows.filter(pl.Series(~late)), nonempty(pl.concat(parts))

    def evict(self, watermarks: Watermarks, state: State) -> int:
        """Evicts the rows below a watermark of the key, and returns their number."""
        table = state.find_table("rows", self._spec.key) if self._by_key else None
        limit = eviction_limit(watermarks.get(self._by_key[0].watermark)) if self._by_key else None
        if table is None or limit is None:
            return 0
        near = table.between(None, limit)
        over = near.filter(all_pass(self._by_key[:1], near, watermarks))
        if over.height:
            table.write(None, over, -over.height)
        return over.height


_IDENTITY, _BEFORE = "__identity", "__before"
_ONE = pl.lit(1, pl.Int64).alias(WEIGHT)


def make_table(spec: TableSpec) -> Kernel:
    if not spec.key:
        return AppendOnlyBag(spec) if spec.append_only else BagTable(spec)
    return AppendOnlyTable(spec) if spec.append_only else KeyedTable(spec)


class KeyedTable(NeverLate):
    """One row per key: an insert replaces, a delete of a missing key does nothing."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._key, self._columns = list(spec.key), list(spec.columns)
        self._lateness = Lateness(spec)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The last row of each key; rows without a key stay, to be rejected, and so do all that may be late."""
        return normalise(rows, self._key) if self._spec.lateness else self._last(rows)

    def _last(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = normalise(rows, self._key).sort(SEQ, WEIGHT)
        keyed = rows.filter(self._has_key())
        last = keyed.unique(subset=[HASH, *self._key], keep="last", maintain_order=True)
        return pl.concat([last, rows.filter(~self._has_key())])

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        dropped = self._lateness.evict(clock.watermarks, state)
        if inputs[0] is None:
            return Delta(evicted=dropped)
        rows = self.combine(0, inputs[0])
        errors = reject(self._spec.relation, "NULL_KEY", rows.filter(~self._has_key()), self._columns, self._no_key)
        rows, late = self._in_time(rows.filter(self._has_key()), clock, state)
        return Delta(self._replaced(rows, state), errors_in_order(errors), late, evicted=dropped)

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("rows", self._key)
        return None if table is None else table.scan().select(*self._columns, _ONE)

    def _has_key(self) -> pl.Expr:
        return pl.all_horizontal(pl.col(name).is_not_null() for name in self._key)

    def _no_key(self, row: Mapping[str, object]) -> str:
        return f"{self._spec.relation} has the key ({', '.join(self._key)}), which must not be NULL."

    def _in_time(self, rows: pl.DataFrame, clock: Clock, state: State) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """The changes that apply, one per key, and those that are late."""
        if not self._spec.lateness:
            return rows, None
        rows = self._lateness.with_eviction_order(rows)
        table = state.table("rows", types_of(rows, self._columns), self._key)
        rows, late = self._lateness.split_late(rows, table, clock.watermarks)
        return self._last(rows), late

    def _replaced(self, rows: pl.DataFrame, state: State) -> pl.DataFrame | None:
        table = state.table("rows", types_of(rows, self._columns), self._key)
        indexes, stored = table.match(rows)
        old, new = align(rows.height, indexes, stored).select(self._columns), rows.select(self._columns)
        had, has = row_mask(rows.height, indexes), (rows[WEIGHT] > 0).to_numpy()
        deleted = rows.filter(pl.Series(had & ~has))
        table.write(rows.filter(pl.Series(has)), deleted, int((has & ~had).sum()) - deleted.height)
        return diff(old, had, new, has)


class AppendOnlyTable(KeyedTable):
    """The first row of a key stays; a delete or a second row is rejected."""

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return normalise(rows, self._key)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        dropped = self._lateness.evict(clock.watermarks, state)
        if inputs[0] is None:
            return Delta(evicted=dropped)
        rows = self.combine(0, inputs[0]).sort(SEQ, WEIGHT)
        keyed = self._has_key()
        relation, columns = self._spec.relation, self._columns
        errors = reject(relation, "NULL_KEY", rows.filter(~keyed), columns, self._no_key)
        errors += reject(relation, "APPEND_ONLY", rows.filter(keyed, pl.col(WEIGHT) < 0), columns, self._a_delete)
        inserts = self._lateness.with_eviction_order(rows.filter(keyed, pl.col(WEIGHT) > 0))
        below = pl.Series(self._lateness.below(inserts, clock.watermarks))
        late, inserts = inserts.filter(below).select(*columns, WEIGHT), inserts.filter(~below)
        fresh = self._fresh(inserts, state)
        errors += reject(relation, "APPEND_ONLY", inserts.filter(~fresh), columns, self._a_second)
        changes = nonempty(inserts.filter(fresh).select(*columns, _ONE))
        return Delta(changes, errors_in_order(errors), nonempty(late), evicted=dropped)

    def _fresh(self, inserts: pl.DataFrame, state: State) -> pl.Series:
        """A mask of the rows that are the first of their key; these are stored."""
        table = state.table("rows", types_of(inserts, self._columns), self._key)
        indexes, _ = table.match(inserts)
        first = inserts.select(pl.struct(HASH, *self._key).is_first_distinct()).to_series()
        fresh = first & pl.Series(~row_mask(inserts.height, indexes))
        table.write(inserts.filter(fresh), grown=int(fresh.sum()))
        return fresh

    def _a_delete(self, row: Mapping[str, object]) -> str:
        return f"{self._spec.relation} is append-only: rows cannot be deleted."

    def _a_second(self, row: Mapping[str, object]) -> str:
        return f"{self._spec.relation} is append-only and has a row with {describe_row(row, self._key)} already."


class BagTable(NeverLate):
    """Rows with their multiplicity; the delete of a missing row is rejected."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._columns = list(spec.columns)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return normalise(rows, self._columns)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        if inputs[0] is None:
            return Delta()
        rows = self.combine(0, inputs[0])
        each = rows.group_by(HASH, *self._columns).agg(pl.col(WEIGHT).sum())
        table = state.table("rows", {**types_of(rows, self._columns), WEIGHT: pl.Int64()}, self._columns)
        rejected = _rejected(rows.with_columns(self._balance(rows, each, table)))
        if rejected.height:
            each = pl.concat([each, rejected.select(each.columns).with_columns(-pl.col(WEIGHT))])
            each = each.group_by(HASH, *self._columns).agg(pl.col(WEIGHT).sum())
        changed = each.filter(pl.col(WEIGHT) != 0)
        add_weights(changed, table)
        errors = reject(self._spec.relation, "ROW_NOT_FOUND", rejected, self._columns, self._not_found)
        return Delta(nonempty(changed.select(*self._columns, WEIGHT).sort(WEIGHT)), errors_in_order(errors))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("rows", self._columns)
        return None if table is None else table.scan().select(*self._columns, WEIGHT)

    def _balance(self, rows: pl.DataFrame, each: pl.DataFrame, table: Table) -> list[pl.Series]:
        """For each row the number of its identity, and the weight of that before the step."""
        indexes, stored = table.match(each)
        old = align(each.height, indexes, stored.select(WEIGHT))[WEIGHT].fill_null(0).to_numpy()
        number = find_rows(rows, each, self._columns)
        return [pl.Series(_IDENTITY, number, dtype=pl.Int64), pl.Series(_BEFORE, old[number])]

    def _not_found(self, row: Mapping[str, object]) -> str:
        return f"{self._spec.relation} has no such row to delete."


class AppendOnlyBag(NeverLate):
    """A bag that only grows: a delete is rejected."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._columns = list(spec.columns)

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        if inputs[0] is None:
            return Delta()
        inserts = consolidate(inputs[0].filter(pl.col(WEIGHT) > 0), [HASH, *self._columns])
        table = state.table("rows", {**types_of(inserts, self._columns), WEIGHT: pl.Int64()}, self._columns)
        add_weights(inserts, table)
        deletes = inputs[0].filter(pl.col(WEIGHT) < 0)
        errors = reject(self._spec.relation, "APPEND_ONLY", deletes, self._columns, self._a_delete)
        return Delta(nonempty(inserts.select(*self._columns, WEIGHT)), errors_in_order(errors))

    def content(self, state: State) -> pl.DataFrame | None:
        table = state.find_table("rows", self._columns)
        return None if table is None else table.scan().select(*self._columns, WEIGHT)

    def _a_delete(self, row: Mapping[str, object]) -> str:
        return f"{self._spec.relation} is append-only: rows cannot be deleted."


def _rejected(rows: pl.DataFrame) -> pl.DataFrame:
    """Deletes of missing rows. In order of arrival a row's balance may not fall below zero: each time it would reach a
    new low, a delete is rejected."""
    if (rows[WEIGHT] > 0).all():
        return rows.clear()
    balance = pl.col(_BEFORE) + pl.col(WEIGHT).cum_sum().over(_IDENTITY)
    low = pl.min_horizontal(balance.cum_min().over(_IDENTITY), pl.lit(0))
    ordered = rows.sort(SEQ, pl.col(WEIGHT), descending=[False, True]).with_columns(low.alias("__low"))
    falls = pl.col("__low") < pl.col("__low").shift(1, fill_value=0).over(_IDENTITY)
    return ordered.filter(falls)
