"""From what is kept of groups to the results of their aggregate functions."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidegate.kernels.aggregates.accumulators import Kept, Real
from tidegate.kernels.aggregates.function import GROUP, Bag, Best, Function, Sums
from tidegate.kernels.aggregates.plan import Plan

Entries = Callable[[int], pl.DataFrame]
"""The entries of all groups in the bag of that number."""


def no_entries(number: int) -> pl.DataFrame:
    """Where no results are made of stored values."""
    raise LookupError(f"the values of bag {number} are not stored")


def results(plan: Plan, groups: pl.DataFrame, kept: pl.DataFrame, entries: Entries) -> pl.DataFrame:
    """Keys and results of each group. `groups` and `kept` are aligned; `entries` is asked only where values matter."""
    pairs = zip(plan.functions, plan.uses, strict=True)
    columns = [_result(plan, made, uses, kept, entries).cast(made.type).alias(made.call.out) for made, uses in pairs]
    keys = groups.select(plan.spec.keys)
    return pl.DataFrame([*keys.get_columns(), *columns])


def _result(plan: Plan, made: Function, uses: list[int], kept: pl.DataFrame, entries: Entries) -> pl.Series:
    match made:
        case Sums():
            return made.result(*(_read(plan, number, kept) for number in uses))
        case Best():
            return kept[f"__p{uses[0]}_{made.shown}"]
        case Bag():
            return made.result(entries(uses[0]).sort(GROUP, *made.call.args), kept.height)
    raise TypeError(f"{type(made).__name__} is no known kind of aggregate function")


def _read(plan: Plan, number: int, kept: pl.DataFrame) -> Kept:
    accumulator = plan.slots[number].accumulator
    columns = [kept[name] for name in plan.slot_types(number)]
    if isinstance(accumulator, Real):
        return accumulator.read(*columns)
    return accumulator.read([column.to_numpy() for column in columns])
