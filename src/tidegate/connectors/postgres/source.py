"""`FROM POSTGRES`: the changes of tables, or the rows of a table or a query, polled as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, PolledSource, SourceSpec
from tidegate.connectors.postgres import values
from tidegate.connectors.postgres.capture import PostgresCapture
from tidegate.connectors.postgres.client import Reading, reading
from tidegate.connectors.postgres.options import Following, ReadOptions, Server, event_options, read_options
from tidegate.connectors.postgres.values import column_index, typed
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.core.types import arrow_type
from tidegate.errors import make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(spec: SourceSpec, bag: Bag) -> PostgresChanges | PostgresTable:
    """Build a source without columns and a table that is followed as captured, any other table as polled."""
    if not spec.columns:
        return _source(spec, event_options(bag))
    if not spec.key:
        raise make(
            "NOT_SUPPORTED",
            message=f"{spec.relation} has no key, so its rows could not be followed from one reading to the next",
            hint=f"CREATE TABLE {spec.relation} (..., PRIMARY KEY (...)) FROM POSTGRES (...)",
            span=bag.span,
        )
    _reject_types(spec, bag)
    return _source(spec, read_options(bag))


def _source(spec: SourceSpec, options: ReadOptions) -> PostgresChanges | PostgresTable:
    if options.following is None:
        return PostgresTable(spec, options)
    return PostgresChanges(spec, options.server, options.following)


@dataclass(frozen=True)
class PostgresChanges(CapturedSource):
    """Committed changes, as events or as a table, by logical replication."""

    server: Server
    following: Following

    @property
    def session(self) -> str:
        names = (self.following.publication or "", self.following.slot or "")
        return " ".join(("POSTGRES", self.server.place, *names)).strip()

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        sources = [self, *(other for other in others if isinstance(other, PostgresChanges) and other != self)]
        return PostgresCapture(self.server, [(each.spec, each.following) for each in sources], context)


@dataclass(frozen=True)
class PostgresTable(PolledSource):
    """The content of a table or a query in one read-only transaction. A row with a value that its column cannot hold is
    rejected, and the others are read."""

    options: ReadOptions

    @property
    def poll_interval_us(self) -> int | None:
        interval = self.options.refresh_interval
        return None if interval is None else round(interval.total_seconds() * 1_000_000)

    def content(self, spark: SparkSession | None) -> pa.Table:
        tables, read = [self._schema().empty_table()], 0
        with reading(self.options, self.spec.relation, names(self.spec.columns)) as result:
            indexes = self._indexes(result)
            oids = [result.oids[index] for index in indexes]
            for rows in result.batches():
                columns = list(zip(*rows, strict=True))
                texts = [values.cast_to_text(columns[at], oid) for at, oid in zip(indexes, oids, strict=True)]
                tables.append(self._table(texts, oids, read))
                read += len(rows)
        return pa.concat_tables(tables)

    def _schema(self) -> pa.Schema:
        columns = [pa.field(c.name, arrow_type(c.type)) for c in self.spec.columns]
        added = ((WEIGHT, pa.int64()), (SEQ, pa.int64()), (ERROR, pa.string()), (RAW, pa.string()))
        return pa.schema([*columns, *(pa.field(name, type_) for name, type_ in added)])

    def _indexes(self, result: Reading) -> list[int]:
        """The indexes of the relation's columns in the result."""
        origin = f"table {'.'.join(self.options.table)}" if self.options.table else "the query"
        relation = self.spec.relation
        return [column_index(column.name, result.names, origin, relation) for column in self.spec.columns]

    def _table(self, texts: Sequence[values.Texts], oids: Sequence[int], first: int) -> pa.Table:
        """Convert a piece of the result, whose first row has the number `first`."""
        count = len(texts[0])
        arrays, problems = typed(self.spec, texts)
        column_names = names(self.spec.columns)
        raw = {row: values.row_text(column_names, oids, [column[row] for column in texts]) for row in problems}
        added: list[pa.Array] = [
            pa.array([1] * count, pa.int64()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([problems.get(row) for row in range(count)], pa.string()),
            pa.array([raw.get(row) for row in range(count)], pa.string()),
        ]
        return pa.Table.from_arrays([*arrays, *added], schema=self._schema())


def _reject_types(spec: SourceSpec, bag: Bag) -> None:
    for column in spec.columns:
        if not values.convertible(arrow_type(column.type)):
            raise make(
                "NOT_SUPPORTED",
                message=f"{column.name} is {column.type.upper()}, and PostgreSQL has no such values",
                hint=f"declare {column.name} STRING, and take it apart in a view: from_json({column.name}, '...')",
                span=bag.span,
            )
