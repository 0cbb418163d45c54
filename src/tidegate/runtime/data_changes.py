"""INSERT, DELETE and UPDATE: statements that become entries of the insert log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidegate import errors
from tidegate.catalog.relation import Relation
from tidegate.core.types import nullable_schema
from tidegate.runtime.batch import Batch
from tidegate.runtime.contents import Contents
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.spark.connection import SparkConnection
from tidegate.sql import render
from tidegate.sql import statements as s

TARGET = "__target"


class DataChanges:
    """Evaluates changes with Spark, now, and appends them; they are durable when a method returns."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        contents: Contents,
        spark: SparkConnection,
        batch: Callable[[], Batch],
        arguments: Mapping[str, Any],
    ) -> None:
        self._catalog, self._contents, self._spark, self._batch = catalog, contents, spark, batch
        self._arguments = arguments

    def insert(self, statement: s.Insert) -> int:
        """INSERT INTO ... VALUES | SELECT; the number of rows."""
        relation = self._catalog.value.get(statement.name.text, statement.name.span)
        rows = self._evaluate(statement)
        columns = _targets(statement, relation)
        if rows.num_columns != len(columns):
            raise errors.make(
                "TYPE_MISMATCH",
                message=f"{relation.name} takes {len(columns)} values, {rows.num_columns} are given",
                hint=f"the columns are {', '.join(columns)}",
                span=statement.name.span,
            )
        inserted = rows.rename_columns(columns).to_pylist()
        with self._batch() as batch:
            batch.insert(relation.name, inserted)
        return len(inserted)

    def delete(self, statement: s.Delete) -> int:
        """DELETE FROM t [WHERE ...]: deletes rows that the table has now, including pending ones."""
        relation = self._catalog.value.get(statement.name.text, statement.name.span)
        with self._batch() as batch:
            batch.delete(relation.name, [])
            where = "" if statement.where is None else f" WHERE {render(statement.where)}"
            rows = self._over_target(relation, f"SELECT * FROM {TARGET}{where}")
            batch.add(relation.name, rows.cast(nullable_schema(relation.columns)), -1)
        return int(rows.num_rows)

    def update(self, statement: s.Update) -> int:
        """UPDATE t SET ... [WHERE ...] of a keyed table: its new rows replace the old ones by their key."""
        relation = self._catalog.value.get(statement.name.text, statement.name.span)
        if not relation.primary_key:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation.name} has no primary key, so its rows cannot be updated",
                hint="DELETE the old rows and INSERT the new ones, or declare a PRIMARY KEY",
                span=statement.name.span,
            )
        assignments = _assignments(statement, relation)
        where = "" if statement.where is None else f" WHERE {render(statement.where)}"
        items = ", ".join(
            f"{assignments.get(column.name, _quoted(column.name))} AS {_quoted(column.name)}"
            for column in relation.columns
        )
        rows = self._over_target(relation, f"SELECT {items} FROM {TARGET}{where}")
        with self._batch() as batch:
            batch.insert(relation.name, rows.to_pylist())
        return int(rows.num_rows)

    def _evaluate(self, statement: s.Insert) -> pa.Table:
        if statement.query is not None:
            return self._contents.select(statement.query, arguments=self._arguments)
        assert statement.values is not None
        return self._spark.queries.run(f"SELECT * FROM {render(statement.values)}", {}, self._arguments)

    def _over_target(self, relation: Relation, text: str) -> pa.Table:
        table = self._contents.with_pending(relation)
        return self._spark.queries.run(text, {TARGET: (relation.columns, table)}, self._arguments)


def _assignments(statement: s.Update, relation: Relation) -> dict[str, str]:
    assignments = {}
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
        assignments[column.name] = render(value)
    return assignments


def _targets(statement: s.Insert, relation: Relation) -> list[str]:
    if not statement.columns:
        return [column.name for column in relation.columns]
    columns = []
    for name in statement.columns:
        column = relation.column(name.text)
        if column is None:
            raise errors.make("UNKNOWN_COLUMN", name=name.text, span=name.span, hint=_nearest(name.text, relation))
        columns.append(column.name)
    return columns


def _nearest(name: str, relation: Relation) -> str | None:
    return errors.did_you_mean(name, [column.name for column in relation.columns], "columns")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
