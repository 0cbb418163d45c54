"""One step of the values of groups: the count of each before and after, and its arrival.

Frames of entries have the group's number, the arguments, and for FIRST and LAST the arrival (the first one, or the last
one if `latest`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, SEQ, WEIGHT
from tidegate.kernels.aggregates.function import GROUP, POSITION, STEP
from tidegate.kernels.aggregates.plan import Plan, Values
from tidegate.kernels.api import Clock, State
from tidegate.kernels.frames import align, find_rows, types_of
from tidegate.kernels.state.sorting import Indexes, Mask, equal

_FIRST = ("__first_step", "__first_place")
_LAST = ("__last_step", "__last_place")
_ARRIVAL = dict.fromkeys([*_FIRST, *_LAST], pl.Int64())


class PassingBag:
    """Entries that are not stored, because only the best of them is ever needed."""

    def __init__(self, values: Values, entries: pl.DataFrame, group: Indexes, clock: Clock) -> None:
        position = pl.col(SEQ) if values.arrival else pl.lit(0, pl.Int64)
        self._entries = entries.select(
            pl.Series(GROUP, group, dtype=pl.Int64),
            *values.args,
            pl.lit(clock.step, pl.Int64).alias(STEP),
            position.cast(pl.Int64).alias(POSITION),
        )

    def inserted(self, latest: bool) -> pl.DataFrame:
        return self._entries

    def deleted(self, latest: bool) -> pl.DataFrame:
        return self._entries.clear()

    def present(self, groups: Indexes, latest: bool) -> pl.DataFrame:
        return self._entries.clear()


class StoredBag:
    """Entries stored in a table, ordered by group and by value within."""

    def __init__(self, number: int, values: Values, entries: pl.DataFrame, groups: pl.DataFrame, keys: Sequence[str]):
        self._values, self._keys, self._groups = values, list(keys), groups
        self._ident = list(dict.fromkeys([*keys, *values.args]))
        self._name = table_name(number)
        self._entries = entries

    def step(self, state: State, clock: Clock) -> StoredBag:
        """Reads the counts of the changed values and writes the new ones."""
        net = _netted(self._entries, [HASH, *self._ident], str(self._values.hash)) if self._values.arrival else None
        self._changed = self._entries if net is None else net
        arrival = _ARRIVAL if self._values.arrival else {}
        types = {**types_of(self._changed, self._ident), WEIGHT: pl.Int64(), **arrival}
        self._table = state.table(self._name, types, self._ident, within=self._values.hash)
        indexes, stored = self._table.match(self._changed)
        self._before = align(self._changed.height, indexes, stored.select(WEIGHT, *arrival)).with_columns(
            pl.col(WEIGHT).fill_null(0)
        )
        self._after = self._moved(clock)
        self._group = find_rows(self._changed, self._groups, self._keys)
        self._write(len(indexes))
        return self

    def toggled(self) -> pl.DataFrame:
        """The values that appeared (weight 1) or disappeared (-1)."""
        sign = (self._after[WEIGHT] > 0).cast(pl.Int64) - (self._before[WEIGHT] > 0).cast(pl.Int64)
        rows = self._changed.with_columns(sign.alias(WEIGHT), pl.Series(GROUP, self._group, dtype=pl.Int64))
        return rows.filter(pl.col(WEIGHT) != 0)

    def inserted(self, latest: bool) -> pl.DataFrame:
        return self._versions(self._after, latest).filter(self._moves(self._after, self._before, latest))

    def deleted(self, latest: bool) -> pl.DataFrame:
        return self._versions(self._before, latest).filter(self._moves(self._before, self._after, latest))

    def present(self, groups: Indexes, latest: bool) -> pl.DataFrame:
        """All entries of some groups as they are after the step."""
        stored = self._stored(groups)
        untouched = stored.filter(pl.Series(self._touched(stored) < 0)) if stored.height else stored
        changed = self._changed.drop(WEIGHT).with_columns(self._after).select(untouched.columns)
        return self._entries_of(pl.concat([changed, untouched]), groups, latest)

    def past(self, groups: Indexes) -> pl.DataFrame:
        """All entries of some groups as they were before the step."""
        return self._entries_of(self._stored(groups), groups, latest=False)

    def _stored(self, groups: Indexes) -> pl.DataFrame:
        return self._table.groups(self._groups[groups][HASH])

    def _touched(self, stored: pl.DataFrame) -> Indexes:
        return find_rows(stored, self._changed, self._ident, str(self._values.hash))

    def _entries_of(self, rows: pl.DataFrame, groups: Indexes, latest: bool) -> pl.DataFrame:
        """Entries of these groups with positive weight, with the number of their group. Entries of other keys with the
        same hash are left out."""
        group = find_rows(rows, self._groups, self._keys)
        number = pl.Series(GROUP, group, dtype=pl.Int64)
        entries = rows.select(number, *self._values.args, WEIGHT, *self._arrival(latest))
        return entries.filter(pl.col(WEIGHT) > 0, pl.Series(np.isin(group, groups)))

    def _versions(self, side: pl.DataFrame, latest: bool) -> pl.DataFrame:
        rows = self._changed.select(self._values.args).with_columns(side)
        group = pl.Series(GROUP, self._group, dtype=pl.Int64)
        return rows.select(group, *self._values.args, WEIGHT, *self._arrival(latest))

    def _arrival(self, latest: bool) -> list[pl.Expr]:
        if not self._values.arrival:
            return []
        step, position = _LAST if latest else _FIRST
        return [pl.col(step).alias(STEP), pl.col(position).alias(POSITION)]

    def _moves(self, side: pl.DataFrame, other: pl.DataFrame, latest: bool) -> pl.Series:
        """A mask of the entries that exist on one side only, or arrived at another position."""
        same: Mask = (other[WEIGHT] > 0).to_numpy()
        if self._values.arrival:
            same = same & equal(side, other, _LAST if latest else _FIRST)
        return (side[WEIGHT] > 0) & pl.Series(~same)

    def _moved(self, clock: Clock) -> pl.DataFrame:
        weight = (self._before[WEIGHT] + self._changed[WEIGHT]).alias(WEIGHT)
        if not self._values.arrival:
            return pl.DataFrame([weight])
        stays, fresh = self._before[WEIGHT] > 0, self._changed["__last_place"].is_not_null()
        now = pl.repeat(clock.step, len(weight), dtype=pl.Int64, eager=True)
        first = (
            self._before["__first_step"].zip_with(stays, now),
            _either(self._before, self._changed, "__first_place", stays),
        )
        last = (
            now.zip_with(fresh, self._before["__last_step"]),
            _either(self._changed, self._before, "__last_place", fresh),
        )
        columns = [series.alias(name) for series, name in zip((*first, *last), _ARRIVAL, strict=True)]
        return pl.DataFrame([weight, *columns])

    def _write(self, known: int) -> None:
        rows = self._changed.drop(WEIGHT, *(name for name in _ARRIVAL if name in self._changed.columns))
        rows = rows.with_columns(self._after)
        stays = pl.col(WEIGHT) != 0
        upserts = rows.filter(stays)
        self._table.write(upserts, rows.filter(~stays), upserts.height - known)


def table_name(number: int) -> str:
    return f"values{number}"


def value_ident(plan: Plan, number: int) -> list[str]:
    """The columns that identify an entry of a bag."""
    return list(dict.fromkeys([*plan.spec.keys, *plan.values[number].args]))


def all_entries(number: int, plan: Plan, groups: pl.DataFrame, state: State) -> pl.DataFrame:
    """The entries of a bag as they are stored, with the numbers of their groups."""
    keys, args = plan.spec.keys, plan.values[number].args
    table = state.find_table(table_name(number), value_ident(plan, number))
    if table is None:
        return pl.DataFrame(schema={GROUP: pl.Int64(), WEIGHT: pl.Int64(), **{name: plan.types[name] for name in args}})
    rows = table.scan()
    group = pl.Series(GROUP, find_rows(rows, groups, keys), dtype=pl.Int64)
    return rows.with_columns(group).filter(pl.col(GROUP) >= 0, pl.col(WEIGHT) > 0)


def evict_values(plan: Plan, groups: pl.DataFrame, state: State) -> None:
    """Drops the values of groups."""
    for number, values in enumerate(plan.values):
        bag = state.find_table(table_name(number), value_ident(plan, number)) if values.stored else None
        if bag is not None:
            rows = bag.groups(groups[HASH])
            mine = rows.filter(pl.Series(find_rows(rows, groups, plan.spec.keys) >= 0))
            bag.write(None, mine, -mine.height)


def _either(one: pl.DataFrame, other: pl.DataFrame, column: str, when: pl.Series) -> pl.Series:
    return one[column].zip_with(when, other[column])


def _netted(entries: pl.DataFrame, columns: Sequence[str], hash: str) -> pl.DataFrame:
    """One entry per value, with its first and last position of arrival."""
    inserted = pl.col(SEQ).filter(pl.col(WEIGHT) > 0).cast(pl.Int64)
    return entries.group_by(columns).agg(
        pl.col(WEIGHT).sum(),
        pl.col(hash).first(),
        inserted.min().alias("__first_place"),
        inserted.max().alias("__last_place"),
    )
