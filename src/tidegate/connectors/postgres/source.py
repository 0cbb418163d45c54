"""`FROM POSTGRES`: a table or the rows of a query, read as a whole at the start and whenever it is time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.catalog.schema import names
from tidegate.connectors.base import ERROR, RAW, SEQ, WEIGHT, Position, SourceContext, SourceSpec
from tidegate.connectors.options import Bag
from tidegate.connectors.postgres import values
from tidegate.connectors.postgres.client import Reading, reading
from tidegate.connectors.postgres.options import ReadOptions, read_options
from tidegate.errors import Error, enumerated, make, nearest
from tidegate.runtime.arrow_types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 80


@dataclass(frozen=True)
class PostgresSource:
    """What the database had at one moment, in a transaction that only reads. A row with a value that its column cannot
    have comes out as an error; the others are not held up by it."""

    spec: SourceSpec
    options: ReadOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> PostgresSource:
        if spec.format is not None:
            raise make("UNKNOWN_FORMAT", message="POSTGRES has no formats", hint="leave FORMAT out", span=bag.span)
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
    def refreshed(self) -> bool:
        return True

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
        raise AssertionError("a table of PostgreSQL is read as a whole")

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
        return [self._place(column.name, found.names) for column in self.spec.columns]

    def _place(self, name: str, there: Sequence[str]) -> int:
        """A name in just the same letters goes before one that differs in case."""
        same = [at for at, other in enumerate(there) if other == name]
        alike = same or [at for at, other in enumerate(there) if other.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        origin = f"table {'.'.join(self.options.table)}" if self.options.table else "the query"
        near = nearest(name, there)
        fix = (
            f"did you mean {enumerated(near)}?" if near else f"leave {name} out of the columns of {self.spec.relation}"
        )
        raise make(
            "PIPELINE_FAILED",
            message=f"{origin} of {self.spec.relation} has {'several columns' if alike else 'no column'} {name}",
            detail=f"its columns are {', '.join(there)}",
            hint=f"rename all but one of them in the query: SELECT ... AS {name}" if alike else fix,
        )

    def _table(self, texts: Sequence[values.Texts], oids: Sequence[int], first: int) -> pa.Table:
        """A piece of the result, of which the first row is number `first`."""
        count = len(texts[0])
        arrays, wrong = [], dict[int, str]()
        for column, said in zip(self.spec.columns, texts, strict=True):
            converted, faults = values.array(said, arrow_type(column.type))
            arrays.append(converted)
            for place, text in faults.items():
                wrong.setdefault(place, f"{column.name}: '{text[:SHOWN]}' is not a {column.type.upper()}")
            if not column.nullable and column.name not in self.spec.key and None in said:
                for place in (at for at, text in enumerate(said) if text is None):
                    wrong.setdefault(place, f"{column.name} is NULL, but the column is NOT NULL")
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
