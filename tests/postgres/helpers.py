"""Helpers of the PostgreSQL tests."""

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
    a type must not be followed by a blank."""
    schema = []
    for declaration in columns.split(", "):
        name, _, type_ = declaration.partition(" ")
        schema.append(Column(name, type_.removesuffix(" not null"), not type_.endswith(" not null")))
    bag = Bag("POSTGRES", [(name, value, None) for name, value in options.items()])
    bag.format = format
    table = build(SourceSpec("POSTGRES", "customers", tuple(schema), options, format, key), bag)
    bag.finish()
    return table


def content_of(reader: Built) -> pa.Table:
    """The content of the table, read as a whole even if the source would follow its changes."""
    if isinstance(reader, PostgresChanges):
        reader = PostgresTable(reader.spec, ReadOptions(reader.server, None, reader.following.tables[0], None))
    return reader.content(None)


def rows(reader: Built) -> list[tuple[Any, ...]]:
    """The rows in the order in which they are read, without the internal columns; there must be no errors."""
    table = content_of(reader)
    assert set(table.column("__error").to_pylist()) <= {None}
    return [tuple(row.values())[:-4] for row in table.to_pylist()]


def errors(reader: Built) -> list[tuple[Any, ...]]:
    """Error and raw text of the rows that cannot be read."""
    table = content_of(reader).select(["__error", "__raw"])
    return [tuple(row.values()) for row in table.to_pylist() if row["__error"] is not None]
