"""What a keyed table has, with everything that was given to it and is not yet processed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from tidegate.catalog.relation import Relation
from tidegate.connectors.base import Rows
from tidegate.core.columns import WEIGHT
from tidegate.runtime.contents import pending, schema_of

if TYPE_CHECKING:
    from tidegate.database import Database


def present_keys(db: Database, relation: Relation, further: Sequence[Rows] = ()) -> pa.Table:
    """Rows with the keys that a table has, other columns NULL. `further` are changes that come after all others."""
    schema, key = schema_of(relation.columns), list(relation.primary_key)
    rows = _frame(db.log.content(relation.name, schema)).select(key)
    given = [*pending(db, relation), *((table, weight) for name, table, weight in further if name == relation.name)]
    for table, weight in given:
        rows = _applied(rows, _frame(table), weight, key)
    return pa.Table.from_arrays(
        [rows[column.name].to_arrow() if column.name in key else pa.nulls(rows.height) for column in relation.columns],
        names=schema.names,
    ).cast(schema)


def _applied(rows: pl.DataFrame, given: pl.DataFrame, weight: int, key: list[str]) -> pl.DataFrame:
    if WEIGHT not in given.columns:
        given = given.with_columns(pl.lit(weight).alias(WEIGHT))
    last = given.select(*key, WEIGHT).unique(key, keep="last", maintain_order=True)
    left = rows.join(last.select(key), on=key, how="anti", nulls_equal=True)
    return pl.concat([left, last.filter(pl.col(WEIGHT) > 0).select(key)], how="vertical_relaxed")


def _frame(table: pa.Table) -> pl.DataFrame:
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found
