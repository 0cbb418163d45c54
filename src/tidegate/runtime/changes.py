"""INSERT, DELETE and UPDATE: statements that become entries of the insert log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from tidegate import errors
from tidegate.catalog.relation import Relation
from tidegate.core import zset
from tidegate.core.columns import WEIGHT
from tidegate.runtime.contents import content, pending, run_select, schema_of
from tidegate.sql import render
from tidegate.sql import statements as s

if TYPE_CHECKING:
    from tidegate.database import Database

TARGET = "__target"


def insert(statement: s.Insert, db: Database) -> int:
    """INSERT INTO ... VALUES | SELECT: the rows are evaluated now, by Spark, and are durable when it returns."""
    relation = db.catalog.get(statement.name.text, statement.name.span)
    rows = _given(statement, db)
    columns = _targets(statement, relation)
    if rows.num_columns != len(columns):
        raise errors.make(
            "TYPE_MISMATCH",
            message=f"{relation.name} takes {len(columns)} values, {rows.num_columns} are given",
            hint=f"the columns are {', '.join(columns)}",
            span=statement.name.span,
        )
    given = rows.rename_columns(columns).to_pylist()
    with db.batch() as batch:
        batch.insert(relation.name, given)
    return len(given)


def delete(statement: s.Delete, db: Database) -> int:
    """DELETE FROM t [WHERE ...]: takes away the rows that are there now, those not yet processed included."""
    relation = _table(statement.name, db)
    with db.batch() as batch:
        batch.delete(relation.name, [])
        where = "" if statement.where is None else f" WHERE {render(statement.where)}"
        rows = _over_target(db, relation, f"SELECT * FROM {TARGET}{where}")
        batch.add(relation.name, rows.cast(schema_of(relation.columns)), -1)
    return int(rows.num_rows)


def update(statement: s.Update, db: Database) -> int:
    """UPDATE t SET ... [WHERE ...] of a keyed table: its new rows replace the old ones by their key."""
    relation = _table(statement.name, db)
    if not relation.primary_key:
        raise errors.make(
            "NOT_SUPPORTED",
            message=f"{relation.name} has no primary key, so its rows cannot be updated",
            hint="DELETE the old rows and INSERT the new ones, or declare a PRIMARY KEY",
            span=statement.name.span,
        )
    chosen = _assignments(statement, relation)
    where = "" if statement.where is None else f" WHERE {render(statement.where)}"
    items = ", ".join(
        f"{chosen.get(column.name, _quoted(column.name))} AS {_quoted(column.name)}" for column in relation.columns
    )
    rows = _over_target(db, relation, f"SELECT {items} FROM {TARGET}{where}")
    with db.batch() as batch:
        batch.insert(relation.name, rows.to_pylist())
    return int(rows.num_rows)


def _assignments(statement: s.Update, relation: Relation) -> dict[str, str]:
    chosen = {}
    for name, value in statement.assignments:
        column = relation.column(name.text)
        if column is None:
            raise errors.make("UNKNOWN_COLUMN", name=name.text, span=name.span, hint=_nearest(name.text, relation))
        if column.name in relation.primary_key:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{column.name} is part of the primary key of {relation.name} and cannot be updated",
                hint="DELETE the row and INSERT it with its new key",
                span=name.span,
            )
        chosen[column.name] = render(value)
    return chosen


def _table(name: s.Name, db: Database) -> Relation:
    return db.catalog.get(name.text, name.span)


def _given(statement: s.Insert, db: Database) -> pa.Table:
    if statement.query is not None:
        return run_select(statement.query, db, None)
    assert statement.values is not None
    return db.engine.queries.run(f"SELECT * FROM {render(statement.values)}", {})


def _targets(statement: s.Insert, relation: Relation) -> list[str]:
    if not statement.columns:
        return [column.name for column in relation.columns]
    found = []
    for name in statement.columns:
        column = relation.column(name.text)
        if column is None:
            raise errors.make("UNKNOWN_COLUMN", name=name.text, span=name.span, hint=_nearest(name.text, relation))
        found.append(column.name)
    return found


def _nearest(name: str, relation: Relation) -> str | None:
    return errors.did_you_mean(name, [column.name for column in relation.columns], "columns")


def _over_target(db: Database, relation: Relation, text: str) -> pa.Table:
    return db.engine.queries.run(text, {TARGET: (relation.columns, _present(db, relation))})


def _present(db: Database, relation: Relation) -> pa.Table:
    """The content of a table with everything that was given to it, processed or not."""
    schema = schema_of(relation.columns)
    rows = _frame(content(db, relation.name))
    for table, weight in pending(db, relation):
        rows = _applied(rows, _frame(table.cast(schema)), weight, relation)
    return rows.to_arrow().cast(schema)


def _applied(rows: pl.DataFrame, given: pl.DataFrame, weight: int, relation: Relation) -> pl.DataFrame:
    key = list(relation.primary_key)
    if key:
        kept = rows.join(given.select(key), on=key, how="anti", nulls_equal=True)
        last = given.unique(key, keep="last", maintain_order=True)
        return pl.concat([kept, last]) if weight > 0 else kept
    weighted = [
        frame.with_columns(pl.lit(each, pl.Int64).alias(WEIGHT)) for frame, each in ((rows, 1), (given, weight))
    ]
    return zset.expand(zset.consolidate(pl.concat(weighted)))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
