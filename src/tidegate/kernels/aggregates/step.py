"""One step of the groups of a GROUP BY: their sums, best entries and results, before and after."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.aggregates.accumulators import Count, CountEqual, DoubleSum, ExactSum, Kept, LimbSum
from tidegate.kernels.aggregates.bags import PassingBag, StoredBag
from tidegate.kernels.aggregates.exact import LIMBS, ExactSums, Ints, split
from tidegate.kernels.aggregates.function import GROUP, STEP, Bag, Best, Function, Sums
from tidegate.kernels.aggregates.partial import Parts
from tidegate.kernels.aggregates.plan import Pick, Plan
from tidegate.kernels.api import Clock, State
from tidegate.kernels.frames import align, diff, find_rows, types_of
from tidegate.kernels.state.sorting import Mask, equal


def whole_sums(
    name: str,
    accumulator: Count | CountEqual | LimbSum | DoubleSum,
    old: pl.DataFrame,
    groups: pl.DataFrame,
    toggled: pl.DataFrame | None,
) -> list[pl.Series]:
    """The columns of an accumulator of plain numbers. `toggled`: distinct values that come or go; else `groups` has
    sums."""
    names = [f"{name}_{part}" for part in range(accumulator.width)]
    if toggled is None:
        return [(old[column] + groups[column]).alias(column) for column in names]
    terms = accumulator.terms(toggled)
    return [
        (old[column] + _by_group(term, toggled, old.height)).alias(column)
        for column, term in zip(names, terms, strict=True)
    ]


def exact_sums(
    name: str, real: ExactSum, old: pl.DataFrame, brought: ExactSums | None, toggled: pl.DataFrame | None
) -> list[pl.Series]:
    """The two list columns of an exact sum, plus `brought` or the distinct values that are toggled."""
    index, value = f"{name}_i", f"{name}_v"
    before = ExactSums.read(old[index], old[value])
    changes = [change for change in (brought, None if toggled is None else _exact(real, toggled, old.height)) if change]
    limbs = [np.concatenate(arrays) for arrays in zip(*map(_arrays, [before, *changes]), strict=True)]
    indices, values = ExactSums.sum(old.height, *limbs).columns()
    return [indices.alias(index), values.alias(value)]


def _by_group(term: pl.Series, rows: pl.DataFrame, groups: int) -> pl.Series:
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, rows[GROUP].to_numpy(), (term * rows[WEIGHT]).to_numpy())
    return pl.Series(total)


def _exact(real: ExactSum, rows: pl.DataFrame, groups: int) -> ExactSums:
    weights = (rows[WEIGHT] * real.counts(rows).cast(pl.Int64)).to_numpy()
    parts = [split(piece, weights) for piece in real.pieces(rows)]
    group = np.tile(rows[GROUP].to_numpy(), LIMBS * len(parts))
    index = np.concatenate([lowest + limb for lowest, *_ in parts for limb in range(LIMBS)])
    return ExactSums.sum(groups, group, index, np.concatenate([limb for _, *limbs in parts for limb in limbs]))


def _arrays(sums: ExactSums) -> tuple[Ints, Ints, Ints]:
    return sums.group, sums.index, sums.value


_GONE = "__gone"


def update_pick(name: str, pick: Pick, old: pl.DataFrame, bag: StoredBag | PassingBag) -> pl.DataFrame:
    """The stored columns of a pick after the step: the best of the old best entry and the new entries.

    Retracted entries compete too: where one wins, the best entry is deleted, and is searched for among all.
    """
    latest = (STEP, True) in pick.order
    standing = _standing(name, pick, old)
    inserted, deleted = _entries(bag.inserted(latest), pick, False), _entries(bag.deleted(latest), pick, True)
    best = _first(pl.concat([standing, inserted, deleted]), pick)
    if best[_GONE].any():
        lost = best.filter(pl.col(_GONE))[GROUP].to_numpy()
        again = _first(_entries(bag.present(lost, latest), pick, False), pick)
        best = pl.concat([best.filter(~pl.col(_GONE)), again])
    columns = best.select(pl.lit(True).alias(name), *(pl.col(c).alias(f"{name}_{c}") for c in pick.columns))
    return align(old.height, best[GROUP].to_numpy(), columns).with_columns(pl.col(name).fill_null(False))


def _standing(name: str, pick: Pick, old: pl.DataFrame) -> pl.DataFrame:
    numbers = pl.Series(GROUP, np.arange(old.height), dtype=pl.Int64)
    columns = [pl.col(f"{name}_{column}").alias(column) for column in pick.columns]
    return old.select(numbers, *columns, pl.lit(False).alias(_GONE)).filter(old[name])


def _entries(rows: pl.DataFrame, pick: Pick, retracted: bool) -> pl.DataFrame:
    return rows.select(GROUP, *pick.columns, pl.lit(retracted).alias(_GONE))


def _first(rows: pl.DataFrame, pick: Pick) -> pl.DataFrame:
    """The first row of each group; NULL is below every value."""
    down = [False, *(descending for _, descending in pick.order), True]
    ordered = rows.sort([GROUP, *pick.columns, _GONE], descending=down, nulls_last=down)
    return ordered.unique(subset=GROUP, keep="first", maintain_order=True)


Entries = Callable[[int], pl.DataFrame]
"""The entries of all groups in the bag of that number."""


def no_entries(number: int) -> pl.DataFrame:
    """For plans whose results need no stored values."""
    raise LookupError(f"the values of bag {number} are not stored")


def results(plan: Plan, groups: pl.DataFrame, stored: pl.DataFrame, entries: Entries) -> pl.DataFrame:
    """Keys and results of each group. `groups` and `stored` are aligned; `entries` is called only for functions that
    need stored values."""
    pairs = zip(plan.functions, plan.uses, strict=True)
    columns = [_result(plan, func, uses, stored, entries).cast(func.type).alias(func.call.out) for func, uses in pairs]
    keys = groups.select(plan.spec.keys)
    return pl.DataFrame([*keys.get_columns(), *columns])


def _result(plan: Plan, func: Function, uses: list[int], stored: pl.DataFrame, entries: Entries) -> pl.Series:
    match func:
        case Sums():
            return func.result(*(_read(plan, number, stored) for number in uses))
        case Best():
            return stored[f"__p{uses[0]}_{func.result}"]
        case Bag():
            return func.result(entries(uses[0]).sort(GROUP, *func.call.args), stored.height)
    raise TypeError(f"{type(func).__name__} is no known kind of aggregate function")


def _read(plan: Plan, number: int, stored: pl.DataFrame) -> Kept:
    accumulator = plan.slots[number].accumulator
    columns = [stored[name] for name in plan.slot_types(number)]
    if isinstance(accumulator, ExactSum):
        return accumulator.read(*columns)
    return accumulator.read([column.to_numpy() for column in columns])


class GroupStep:
    """`old` and `new` are the stored columns of each touched group before and after the step."""

    def __init__(self, plan: Plan, parts: Parts, clock: Clock, state: State) -> None:
        self._plan, self._keys = plan, list(plan.spec.keys)
        self._groups, self._reals = parts.groups, parts.reals
        types = {**types_of(parts.groups, self._keys), **plan.group_types()}
        self._table = state.table("groups", types, self._keys)
        self._bags = [self._bag(number, rows, clock, state) for number, rows in enumerate(parts.entries)]
        self._stored, self._old = self._before()
        self._new = self._after()

    def changes(
        self, with_hash: bool = False, extra: tuple[pl.DataFrame, pl.DataFrame] | None = None
    ) -> pl.DataFrame | None:
        """Store the groups and return the changes of their results, with the hash of the group if `with_hash`. `extra`
        are further columns of the results, before and after."""
        had, has = self._exists(self._old) & self._stored, self._exists(self._new)
        self.store()
        hashes = [self._groups[HASH]] if with_hash else []
        old, new = self._results(self._old, after=False), self._results(self._new, after=True)
        more = extra or (pl.DataFrame(), pl.DataFrame())
        return diff(old.with_columns(*hashes, *more[0]), had, new.with_columns(*hashes, *more[1]), has)

    def _exists(self, stored: pl.DataFrame) -> Mask:
        """A mask of the groups with a result: those with rows, and always the one of a global aggregate."""
        exists: Mask = (stored[WEIGHT] > 0).to_numpy()
        return exists | self._plan.spec.scalar

    def _bag(self, number: int, rows: pl.DataFrame, clock: Clock, state: State) -> StoredBag | PassingBag:
        values = self._plan.values[number]
        if values.stored:
            return StoredBag(number, values, rows, self._groups, self._keys).step(state, clock)
        return PassingBag(values, rows, find_rows(rows, self._groups, self._keys), clock)

    def _before(self) -> tuple[Mask, pl.DataFrame]:
        """Which groups are stored, and their columns; empty values for other groups."""
        indexes, rows = self._table.match(self._groups)
        stored = np.zeros(self._groups.height, dtype=np.bool_)
        stored[indexes] = True
        old = align(self._groups.height, indexes, rows.select(*self._plan.group_types()))
        flags = [f"__p{number}" for number in range(len(self._plan.picks))]
        return stored, old.with_columns(pl.col(self._plan.counters).fill_null(0), pl.col(flags).fill_null(False))

    def _after(self) -> pl.DataFrame:
        columns = [(self._old[WEIGHT] + self._groups[WEIGHT]).alias(WEIGHT)]
        for number, slot in enumerate(self._plan.slots):
            toggled = None if slot.values is None else self._stored_bag(slot.values).toggled()
            if isinstance(slot.accumulator, ExactSum):
                columns += exact_sums(f"__s{number}", slot.accumulator, self._old, self._reals.get(number), toggled)
            else:
                columns += whole_sums(f"__s{number}", slot.accumulator, self._old, self._groups, toggled)
        for number, pick in enumerate(self._plan.picks):
            columns += update_pick(f"__p{number}", pick, self._old, self._bags[pick.values]).get_columns()
        return pl.DataFrame(columns)

    def _stored_bag(self, number: int) -> StoredBag:
        bag = self._bags[number]
        assert isinstance(bag, StoredBag)
        return bag

    def store(self) -> None:
        """Stores the groups."""
        rows = self._groups.select(HASH, *self._keys).with_columns(self._new)
        stays = (self._new[WEIGHT] != 0).to_numpy() | self._plan.spec.scalar
        touched = ~self._stored | ~equal(self._old, self._new, self._new.columns)
        upserts = rows.filter(pl.Series(stays & touched))
        deletes = rows.filter(pl.Series(~stays & self._stored))
        grown = int((stays & ~self._stored).sum()) - deletes.height
        self._table.write(upserts, deletes, grown)

    def _results(self, stored: pl.DataFrame, after: bool) -> pl.DataFrame:
        def entries(number: int) -> pl.DataFrame:
            bag, all_groups = self._stored_bag(number), np.arange(self._groups.height)
            return bag.present(all_groups, latest=False) if after else bag.past(all_groups)

        return results(self._plan, self._groups, stored, entries)
