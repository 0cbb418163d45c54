"""Weights of whole rows, kept in a table."""

from __future__ import annotations

import numpy as np
import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.kernels.api import Table
from tidegate.kernels.frames import aligned
from tidegate.kernels.state.search import Mask, Places


def weighed(rows: pl.DataFrame, table: Table) -> tuple[pl.Series, pl.Series]:
    """Adds the weights of `rows` (each identity once) to those stored, and gives both, before and after."""
    places, found = table.match(rows)
    old = aligned(rows.height, places, found.select(WEIGHT))[WEIGHT].fill_null(0)
    new = old + rows[WEIGHT]
    after = rows.with_columns(new.alias(WEIGHT))
    stays = pl.col(WEIGHT) != 0
    upserts = after.filter(stays)
    table.write(upserts, after.filter(~stays, pl.Series(there(rows.height, places))), upserts.height - len(places))
    return old, new


def there(count: int, places: Places) -> Mask:
    """Which of `count` rows are among `places`."""
    known = np.zeros(count, dtype=np.bool_)
    known[places] = True
    return known
