"""One step of a GROUP BY over the groups that it touches."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.aggregates.accumulators import Real
from tidegate.kernels.aggregates.bags import PassingBag, StoredBag
from tidegate.kernels.aggregates.partial import Parts
from tidegate.kernels.aggregates.picks import picked
from tidegate.kernels.aggregates.plan import Plan
from tidegate.kernels.aggregates.results import results
from tidegate.kernels.aggregates.sums import exact_sums, whole_sums
from tidegate.kernels.api import Clock, State
from tidegate.kernels.frames import aligned, changes, numbered, types_of
from tidegate.kernels.state.merge import equal
from tidegate.kernels.state.search import Mask


class GroupStep:
    """What is kept of each touched group is in `old` and `new`, row by row."""

    def __init__(self, plan: Plan, parts: Parts, clock: Clock, state: State) -> None:
        self._plan, self._keys = plan, list(plan.spec.keys)
        self._groups, self._reals = parts.groups, parts.reals
        types = {**types_of(parts.groups, self._keys), **plan.group_types()}
        self._table = state.table("groups", types, self._keys)
        self._bags = [self._bag(number, rows, clock, state) for number, rows in enumerate(parts.entries)]
        self._stored, self._old = self._before()
        self._new = self._after()

    def changes(
        self, filed: bool = False, beside: tuple[pl.DataFrame, pl.DataFrame] | None = None
    ) -> pl.DataFrame | None:
        """Writes what is kept and gives the changes of the results, with the hash of their group if `filed`. `beside`
        are further columns of the results, before and after."""
        had, has = self._exists(self._old) & self._stored, self._exists(self._new)
        self.store()
        hashes = [self._groups[HASH]] if filed else []
        old, new = self._results(self._old, after=False), self._results(self._new, after=True)
        more = beside or (pl.DataFrame(), pl.DataFrame())
        return changes(old.with_columns(*hashes, *more[0]), had, new.with_columns(*hashes, *more[1]), has)

    def _exists(self, kept: pl.DataFrame) -> Mask:
        """Which groups have a result: those with rows, and a global aggregate always."""
        there: Mask = (kept[WEIGHT] > 0).to_numpy()
        return there | self._plan.spec.scalar

    def _bag(self, number: int, rows: pl.DataFrame, clock: Clock, state: State) -> StoredBag | PassingBag:
        values = self._plan.values[number]
        if values.stored:
            return StoredBag(number, values, rows, self._groups, self._keys).step(state, clock)
        return PassingBag(values, rows, numbered(rows, self._groups, self._keys), clock)

    def _before(self) -> tuple[Mask, pl.DataFrame]:
        """Which groups are stored, and what is kept of them; of the others, nothing."""
        places, found = self._table.match(self._groups)
        stored = np.zeros(self._groups.height, dtype=np.bool_)
        stored[places] = True
        kept = aligned(self._groups.height, places, found.select(*self._plan.group_types()))
        flags = [f"__p{number}" for number in range(len(self._plan.picks))]
        return stored, kept.with_columns(pl.col(self._plan.counters).fill_null(0), pl.col(flags).fill_null(False))

    def _after(self) -> pl.DataFrame:
        columns = [(self._old[WEIGHT] + self._groups[WEIGHT]).alias(WEIGHT)]
        for number, slot in enumerate(self._plan.slots):
            toggled = None if slot.values is None else self._stored_bag(slot.values).toggled()
            if isinstance(slot.accumulator, Real):
                columns += exact_sums(f"__s{number}", slot.accumulator, self._old, self._reals.get(number), toggled)
            else:
                columns += whole_sums(f"__s{number}", slot.accumulator, self._old, self._groups, toggled)
        for number, pick in enumerate(self._plan.picks):
            columns += picked(f"__p{number}", pick, self._old, self._bags[pick.values]).get_columns()
        return pl.DataFrame(columns)

    def _stored_bag(self, number: int) -> StoredBag:
        bag = self._bags[number]
        assert isinstance(bag, StoredBag)
        return bag

    def store(self) -> None:
        """Writes what is kept of the groups."""
        rows = self._groups.select(HASH, *self._keys).with_columns(self._new)
        stays = (self._new[WEIGHT] != 0).to_numpy() | self._plan.spec.scalar
        touched = ~self._stored | ~equal(self._old, self._new, self._new.columns)
        upserts = rows.filter(pl.Series(stays & touched))
        deletes = rows.filter(pl.Series(~stays & self._stored))
        grown = int((stays & ~self._stored).sum()) - deletes.height
        self._table.write(upserts, deletes, grown)

    def _results(self, kept: pl.DataFrame, after: bool) -> pl.DataFrame:
        def entries(number: int) -> pl.DataFrame:
            bag, all_groups = self._stored_bag(number), np.arange(self._groups.height)
            return bag.present(all_groups, latest=False) if after else bag.past(all_groups)

        return results(self._plan, self._groups, kept, entries)
