"""What relations contain, and ad-hoc SELECTs over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from tidegate import bind, errors
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.catalog.maintained import uses_bus
from tidegate.catalog.relation import Relation
from tidegate.catalog.system import PREFIX
from tidegate.connectors.contract import Rows
from tidegate.core import zset
from tidegate.core.columns import WEIGHT
from tidegate.core.types import nullable_schema
from tidegate.core.zset import frame_of
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.readiness import Readiness
from tidegate.runtime.system import SystemRelations
from tidegate.spark.connection import SparkConnection
from tidegate.sql import statements as s
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_header import LateRow, row_texts
from tidegate.storage.step_log import StepLog


class Contents:
    """Reads relations from the step log, and rows that no step has processed yet from the insert log."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        log: StepLog,
        inserts: InsertLog,
        ledger: Ledger,
        spark: SparkConnection,
        readiness: Readiness,
        system: SystemRelations,
    ) -> None:
        self._catalog, self._log, self._inserts, self._ledger = catalog, log, inserts, ledger
        self._spark, self._readiness, self._system = spark, readiness, system

    def select(self, query: s.Query, as_of: int | None = None, arguments: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of a SELECT, as of a step if it (or the caller) names one."""
        step = query.as_of_step if as_of is None else as_of
        self._log.refresh()
        self._check_step(step, query)
        bound = bind.bind_select(query, self._catalog.value, sources=True)
        if bound.direct is not None:
            return _select(self.rows(bound.relations[0], step), bound.direct)
        tables = {}
        for name in bound.relations:
            relation = self._catalog.value.readable(name)
            tables[bind.temp_name(name)] = (relation.columns, self.rows(relation.name, step))
        return self._spark.queries.run(bound.sql, tables, arguments)

    def rows(self, name: str, as_of: int | None = None) -> pa.Table:
        """The rows of a table, a maintained view, a system relation, or of a source as far as the insert log goes."""
        relation = self._catalog.value.readable(name)
        schema = nullable_schema(relation.columns)
        if relation.name.startswith(PREFIX):
            return pa.Table.from_pylist(self._system.rows(relation.name.removeprefix(PREFIX), as_of), schema=schema)
        if relation.stored:
            self._readiness.check(relation)
            return self._log.content(relation.name, schema, as_of)
        if relation is EVENTS and self._logs_events():
            return self._events(schema, as_of)
        return self._source_rows(relation, schema, as_of)

    def pending(self, relation: Relation) -> list[tuple[pa.Table, int]]:
        """Rows of a relation that no step has processed yet, in order, with their weights."""
        first = max(self._log.header(self._log.last()).entry, self._ledger.first_entries().get(relation.name, 0))
        entries = self._inserts.entries(max(first, self._inserts.first()), self._inserts.head(), {relation.name})
        return [(part.table, part.weight) for _, _, parts in entries for part in parts]

    def with_pending(self, relation: Relation) -> pa.Table:
        """The content of a table with all changes that were inserted, processed or not."""
        schema = nullable_schema(relation.columns)
        rows = frame_of(self.rows(relation.name))
        for table, weight in self.pending(relation):
            rows = _apply(rows, frame_of(table.cast(schema)), weight, relation)
        return rows.to_arrow().cast(schema)

    def keys_with_pending(self, relation: Relation, further: Sequence[Rows] = ()) -> pa.Table:
        """Rows with the keys that a keyed table has, other columns NULL. `further` are changes after all others."""
        schema, key = nullable_schema(relation.columns), list(relation.primary_key)
        rows = frame_of(self._log.content(relation.name, schema)).select(key)
        later = [(table, weight) for name, table, weight in further if name == relation.name]
        for table, weight in [*self.pending(relation), *later]:
            rows = _apply_keys(rows, frame_of(table), weight, key)
        columns = [
            rows[column.name].to_arrow() if column.name in key else pa.nulls(rows.height) for column in relation.columns
        ]
        return pa.Table.from_arrays(columns, names=schema.names).cast(schema)

    def _check_step(self, step: int | None, query: s.Query) -> None:
        """Raise if the step log does not reach back to this step (AS OF STEP)."""
        if step is None or self._log.oldest() <= step <= self._log.last():
            return
        raise errors.make(
            "INVALID_OPTION",
            message=f"step {step} is not in the log",
            hint=f"steps {self._log.oldest()} to {self._log.last()} can be asked for; SET retention_steps keeps more",
            span=query.span,
        )

    def _logs_events(self) -> bool:
        """True if the events of the bus are in the step log."""
        return uses_bus(self._catalog.value) or BUS in self._ledger.start_steps()

    def _events(self, schema: pa.Schema, as_of: int | None) -> pa.Table:
        """The events of the bus, as far back as the step log goes."""
        last = self._log.last() if as_of is None else as_of
        tables = [table.select(schema.names).cast(schema) for _, table in self._log.changes(BUS, 0, last)]
        return pa.concat_tables([schema.empty_table(), *tables])

    def _source_rows(self, relation: Relation, schema: pa.Schema, as_of: int | None) -> pa.Table:
        """Rows of a source are not stored; while the insert log still has them all they can be read from there."""
        first = self._ledger.first_entries().get(relation.name, 0)
        if relation.connector is not None or self._inserts.first() > first:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"the rows of source {relation.name} are not kept",
                hint=f"CREATE MATERIALIZED VIEW ... AS SELECT * FROM {relation.name} keeps them",
            )
        last = self._log.last() if as_of is None else as_of
        tables = [schema.empty_table()]
        for header in self._log.headers():
            end = header.entry
            if header.step <= last and end > first:
                entries = self._inserts.entries(first, end, {relation.name})
                parts = [part for _, _, parts in entries for part in parts]
                late = Counter(each.row for each in self._log.late(header) if _late_at_input(each, relation))
                tables += [without_late(part.table.cast(schema), late) for part in parts]
                first = end
        return pa.concat_tables(tables)


def _select(table: pa.Table, query: bind.DirectSelect) -> pa.Table:
    """The rows of a query without expressions."""
    if query.order:
        keys = [order.column for order in query.order]
        down, last = ([order.descending for order in query.order], [not order.nulls_first for order in query.order])
        position = frame_of(table.select(keys)).with_row_index("__position")
        table = table.take(position.sort(keys, descending=down, nulls_last=last)["__position"].to_arrow())
    return table.slice(query.offset, query.limit).select(query.columns)


def _apply(rows: pl.DataFrame, changes: pl.DataFrame, weight: int, relation: Relation) -> pl.DataFrame:
    key = list(relation.primary_key)
    if key:
        others = rows.join(changes.select(key), on=key, how="anti", nulls_equal=True)
        last = changes.unique(key, keep="last", maintain_order=True)
        return pl.concat([others, last]) if weight > 0 else others
    weighted = [
        frame.with_columns(pl.lit(each, pl.Int64).alias(WEIGHT)) for frame, each in ((rows, 1), (changes, weight))
    ]
    return zset.expand(zset.consolidate(pl.concat(weighted)))


def _apply_keys(rows: pl.DataFrame, changes: pl.DataFrame, weight: int, key: list[str]) -> pl.DataFrame:
    if WEIGHT not in changes.columns:
        changes = changes.with_columns(pl.lit(weight).alias(WEIGHT))
    last = changes.select(*key, WEIGHT).unique(key, keep="last", maintain_order=True)
    others = rows.join(last.select(key), on=key, how="anti", nulls_equal=True)
    return pl.concat([others, last.filter(pl.col(WEIGHT) > 0).select(key)], how="vertical_relaxed")


def _late_at_input(late: LateRow, relation: Relation) -> bool:
    return late.view is None and late.relation == relation.name


def without_late(rows: pa.Table, late: Counter[str]) -> pa.Table:
    """The rows that were not late on arrival. `late` counts the late rows by their text; rows that are found in it are
    taken out of it."""
    if not late:
        return rows
    accepted = []
    for text in row_texts(frame_of(rows)):
        accepted.append(late[text] == 0)
        late[text] -= late[text] > 0
    return rows.filter(pa.array(accepted, pa.bool_()))
