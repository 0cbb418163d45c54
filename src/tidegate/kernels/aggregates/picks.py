"""The best entry of each group after a step. The group's values are read only where the best one is gone."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.kernels.aggregates.bags import PassingBag, StoredBag
from tidegate.kernels.aggregates.function import GROUP, STEP
from tidegate.kernels.aggregates.plan import Pick
from tidegate.kernels.frames import aligned

_GONE = "__gone"


def picked(name: str, pick: Pick, old: pl.DataFrame, bag: StoredBag | PassingBag) -> pl.DataFrame:
    """The columns `name`, `name`_... of what is kept, after the step: the best of the old best and what came.

    What went competes too: where it wins, the best entry is no more and is looked for among all.
    """
    latest = (STEP, True) in pick.order
    standing = _standing(name, pick, old)
    came, went = _entries(bag.came(latest), pick, False), _entries(bag.went(latest), pick, True)
    best = _first(pl.concat([standing, came, went]), pick)
    if best[_GONE].any():
        lost = best.filter(pl.col(_GONE))[GROUP].to_numpy()
        again = _first(_entries(bag.present(lost, latest), pick, False), pick)
        best = pl.concat([best.filter(~pl.col(_GONE)), again])
    columns = best.select(pl.lit(True).alias(name), *(pl.col(c).alias(f"{name}_{c}") for c in pick.columns))
    return aligned(old.height, best[GROUP].to_numpy(), columns).with_columns(pl.col(name).fill_null(False))


def _standing(name: str, pick: Pick, old: pl.DataFrame) -> pl.DataFrame:
    numbers = pl.Series(GROUP, np.arange(old.height), dtype=pl.Int64)
    columns = [pl.col(f"{name}_{column}").alias(column) for column in pick.columns]
    return old.select(numbers, *columns, pl.lit(False).alias(_GONE)).filter(old[name])


def _entries(rows: pl.DataFrame, pick: Pick, gone: bool) -> pl.DataFrame:
    return rows.select(GROUP, *pick.columns, pl.lit(gone).alias(_GONE))


def _first(rows: pl.DataFrame, pick: Pick) -> pl.DataFrame:
    """The first row of each group; NULL is below every value."""
    down = [False, *(descending for _, descending in pick.order), True]
    ordered = rows.sort([GROUP, *pick.columns, _GONE], descending=down, nulls_last=down)
    return ordered.unique(subset=GROUP, keep="first", maintain_order=True)
