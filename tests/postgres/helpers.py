"""What the PostgreSQL tests share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.connectors.contract import SourceSpec
from tidegate.connectors.postgres.options import ReadOptions
from tidegate.connectors.postgres.source import PostgresChanges, PostgresTable, build
from tidegate.core.options import Bag
from tidegate.core.schema import Column

Built = PostgresChanges | PostgresTable


def source(columns: str, key: tuple[str, ...] = ("id",), format: str | None = None, **options: str) -> Built:
    """A source of a table `customers` with columns such as `id bigint, price decimal(10,2) not null`; a comma inside
    a type has no blank after it."""
    schema = []
    for said in columns.split(", "):
        name, _, type_ = said.partition(" ")
        schema.append(Column(name, type_.removesuffix(" not null"), not type_.endswith(" not null")))
    bag = Bag("POSTGRES", [(name, value, None) for name, value in options.items()])
    built = build(SourceSpec("POSTGRES", "customers", tuple(schema), options, format, key), bag)
    bag.finish()
    return built


def content_of(built: Built) -> pa.Table:
    """The table that is read as a whole, also if it would be followed."""
    if isinstance(built, PostgresChanges):
        built = PostgresTable(built.spec, ReadOptions(built.server, None, built.following.tables[0], None))
    return built.content(None)


def rows(built: Built) -> list[tuple[Any, ...]]:
    """The rows that are read, in order, without what was added to them; there must be no errors."""
    table = content_of(built)
    assert set(table.column("__error").to_pylist()) <= {None}
    return [tuple(row.values())[:-4] for row in table.to_pylist()]


def errors(built: Built) -> list[tuple[Any, ...]]:
    """Error and text of the rows that cannot be read."""
    table = content_of(built).select(["__error", "__raw"])
    return [tuple(row.values()) for row in table.to_pylist() if row["__error"] is not None]
