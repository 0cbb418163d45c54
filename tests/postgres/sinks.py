"""Helpers of the tests of the PostgreSQL sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.servers.postgres import Postgres
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.postgres.sink import PostgresSink
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error, Span

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))
KEY = ("item",)


def changes(step: int, *rows: tuple[Any, ...], columns: Schema = VIEW) -> pa.Table:
    """The rows (op, weight, values ...) of a step, as a sink receives them."""
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(columns)])
    records = [(op, weight, step, *values) for op, weight, *values in rows]
    return pa.table([list(column) for column in zip(*records, strict=True)] or [[]] * len(schema), schema=schema)


def one(step: int, item: str | None = "pen") -> pa.Table:
    return changes(step, ("+I", 1, item, step))


def build_sink(
    options: dict[str, str],
    columns: Schema = VIEW,
    key: tuple[str, ...] = (),
    reads: str = "totals",
    format: Any = None,
) -> PostgresSink:
    bag = Bag("POSTGRES", [(name, value, Span(3, 9)) for name, value in options.items()])
    bag.format = format
    sink = PostgresSink.build(SinkSpec("POSTGRES", "out", columns, options, format, key, reads), bag)
    bag.finish()
    return sink


class Shop:
    """The database of one test, and sinks that write to it."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.server, self.database = server, database
        self.place = f"{server.address}/{database}"
        self.sinks: list[PostgresSink] = []

    def open_sink(
        self, key: tuple[str, ...] = (), columns: Schema = VIEW, owner: str = "pipeline 1", **more: str
    ) -> PostgresSink:
        reads = BUS if columns == EVENTS.columns else "totals"
        options = {"url": self.server.url(self.database), "table": "public.revenue"} | more
        sink = build_sink(options, columns, key, reads)
        self.sinks.append(sink)
        sink.open(SinkContext("out", Path(), owner))
        return sink

    def open_error(self, **options: Any) -> str:
        with pytest.raises(Error) as refusal:
            self.open_sink(**options)
        return str(refusal.value)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.server.execute(self.database, statement)

    def rows(self, query: str = "SELECT * FROM revenue ORDER BY 1, 2") -> list[tuple[Any, ...]]:
        with self.server.connect(self.database) as connection:
            connection.execute("SET timezone = 'UTC'")
            return list(connection.execute(query).fetchall())

    def types(self) -> dict[str, str]:
        query = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 0 AND attrelid = "
        return dict(self.rows(f"{query}'revenue'::regclass ORDER BY attnum"))

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
