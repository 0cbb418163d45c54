"""`FROM POSTGRES`: the changes of tables, or the rows of a table or a query, read as a whole whenever it is time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.base import Capture, CaptureContext, Captured, Position, SourceContext, SourceSpec
from tidegate.connectors.postgres import values
from tidegate.connectors.postgres.capture import PostgresCapture
from tidegate.connectors.postgres.client import Reading, reading
from tidegate.connectors.postgres.options import ReadOptions, event_options, read_options
from tidegate.connectors.postgres.typed import place_of, typed
from tidegate.core.arrow_types import arrow_type
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.schema import names
from tidegate.errors import Error, make

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class PostgresSource:
    """Changes as they are committed, as events or as a table; or what the database had at one moment, in a transaction
    that only reads. A row with a value that its column cannot have comes out as an error; the others are not held up by
    it."""

    spec: SourceSpec
    options: ReadOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> PostgresSource:
        if spec.format is not None:
            raise make("UNKNOWN_FORMAT", message="POSTGRES has no formats", hint="leave FORMAT out", span=bag.span)
        if not spec.columns:
            return cls(spec, event_options(bag))
        if not spec.key:
            raise make(
                "NOT_SUPPORTED",
                message=f"{spec.relation} has no key, so its rows could not be followed from one reading to the next",
                hint=f"CREATE TABLE {spec.relation} (..., PRIMARY KEY (...)) FROM POSTGRES (...)",
                span=bag.span,
            )
        _refuse_types(spec, bag)
        return cls(spec, read_options(bag))

    @property
    def bounded(self) -> bool:
        return True

    @property
    def captured(self) -> bool:
        return self.options.following is not None

    @property
    def session(self) -> str:
        following = self.options.following
        names = (following.publication or "", following.slot or "") if following is not None else ()
        return " ".join(("POSTGRES", self.options.server.place, *names)).strip()

    def capture(self, others: Sequence[Captured], context: CaptureContext) -> Capture:
        chosen = [self, *(other for other in others if isinstance(other, PostgresSource) and other != self)]
        followed = [(one.spec, one.options.following) for one in chosen]
        return PostgresCapture(
            self.options.server, [(spec, following) for spec, following in followed if following is not None], context
        )

    @property
    def refreshed(self) -> bool:
        return not self.captured

    @property
    def refresh_every(self) -> int | None:
        interval = self.options.refresh_interval
        return None if interval is None else round(interval.total_seconds() * 1_000_000)

    def content(self, spark: SparkSession | None) -> pa.Table:
        tables, read = [self._schema().empty_table()], 0
        with reading(self.options, self.spec.relation, names(self.spec.columns)) as found:
            places = self._places(found)
            oids = [found.oids[place] for place in places]
            for rows in found.batches():
                columns = list(zip(*rows, strict=True))
                texts = [values.spoken(columns[at], oid) for at, oid in zip(places, oids, strict=True)]
                tables.append(self._table(texts, oids, read))
                read += len(rows)
        return pa.concat_tables(tables)

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        raise AssertionError("PostgreSQL is read as a whole, or followed by the driver")

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return {}

    def failure(self, text: str) -> Error | None:
        return None

    def _schema(self) -> pa.Schema:
        columns = [pa.field(c.name, arrow_type(c.type)) for c in self.spec.columns]
        added = ((WEIGHT, pa.int64()), (SEQ, pa.int64()), (ERROR, pa.string()), (RAW, pa.string()))
        return pa.schema([*columns, *(pa.field(name, type_) for name, type_ in added)])

    def _places(self, found: Reading) -> list[int]:
        """Where the columns of the relation are in the result."""
        origin = f"table {'.'.join(self.options.table)}" if self.options.table else "the query"
        relation = self.spec.relation
        return [place_of(column.name, found.names, origin, relation) for column in self.spec.columns]

    def _table(self, texts: Sequence[values.Texts], oids: Sequence[int], first: int) -> pa.Table:
        """A piece of the result, of which the first row is number `first`."""
        count = len(texts[0])
        arrays, wrong = typed(self.spec, texts)
        shown = names(self.spec.columns)
        raw = {place: values.row_text(shown, oids, [said[place] for said in texts]) for place in wrong}
        added: list[pa.Array] = [
            pa.array([1] * count, pa.int64()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([wrong.get(place) for place in range(count)], pa.string()),
            pa.array([raw.get(place) for place in range(count)], pa.string()),
        ]
        return pa.Table.from_arrays([*arrays, *added], schema=self._schema())


def _refuse_types(spec: SourceSpec, bag: Bag) -> None:
    for column in spec.columns:
        if not values.convertible(arrow_type(column.type)):
            raise make(
                "NOT_SUPPORTED",
                message=f"{column.name} is {column.type.upper()}, and PostgreSQL has no such values",
                hint=f"declare {column.name} STRING, and take it apart in a view: from_json({column.name}, '...')",
                span=bag.span,
            )
