"""What relations contain, and ad-hoc SELECTs over it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate import bind, errors
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.catalog.relation import Relation
from tidegate.catalog.system import PREFIX
from tidegate.circuit.build import uses_bus
from tidegate.connectors.webhook.letters import dead_letters
from tidegate.core.arrow_types import arrow_type
from tidegate.core.schema import Schema
from tidegate.kernels.refusals import row_json
from tidegate.runtime.readiness import check_ready, readiness
from tidegate.runtime.system import SystemRelations
from tidegate.sql import statements as s
from tidegate.storage.step_header import LateRow

if TYPE_CHECKING:
    from tidegate.database import Database


def run_select(query: s.Query, db: Database, as_of: int | None) -> pa.Table:
    """The rows of a SELECT, as of a step if it (or the caller) says so."""
    step = query.as_of_step if as_of is None else as_of
    db.log.refresh()
    check_step(db, step, query)
    bound = bind.bind_select(query, db.catalog, sources=True)
    tables = {}
    for name in bound.relations:
        relation = db.catalog.readable(name)
        tables[bind.temp_name(name)] = (relation.columns, content(db, relation.name, step))
    return db.engine.queries.run(bound.sql, tables)


def check_step(db: Database, step: int | None, query: s.Query) -> None:
    """AS OF STEP reaches as far as the log does."""
    if step is None or db.log.oldest() <= step <= db.log.last():
        return
    raise errors.make(
        "INVALID_OPTION",
        message=f"step {step} is not in the log",
        hint=f"steps {db.log.oldest()} to {db.log.last()} can be asked for; SET retention_steps keeps more",
        span=query.span,
    )


def content(db: Database, name: str, as_of: int | None = None) -> pa.Table:
    """The rows of a table, a materialized view, a system relation, or of a source as far as the insert log has them."""
    relation = db.catalog.readable(name)
    schema = schema_of(relation.columns)
    if relation.name.startswith(PREFIX):
        return pa.Table.from_pylist(_system(db).rows(relation.name.removeprefix(PREFIX), as_of), schema=schema)
    if relation.kept:
        check_ready(db, relation)
        return db.log.content(relation.name, schema, as_of)
    if relation is EVENTS and logged(db):
        return _events(db, schema, as_of)
    return _source_rows(db, relation, schema, as_of)


def logged(db: Database) -> bool:
    """Whether the events of the bus are in the step log."""
    return uses_bus(db.catalog) or BUS in db.ledger.begun()


def _events(db: Database, schema: pa.Schema, as_of: int | None) -> pa.Table:
    """The events of the bus, as far back as the step log goes."""
    last = db.log.last() if as_of is None else as_of
    tables = [table.select(schema.names).cast(schema) for _, table in db.log.changes(BUS, 0, last)]
    return pa.concat_tables([schema.empty_table(), *tables])


def schema_of(columns: Schema) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def pending(db: Database, relation: Relation) -> list[tuple[pa.Table, int]]:
    """Rows of a relation that were given but not yet processed, in order, with their weights."""
    first = max(db.log.header(db.log.last()).entry, db.ledger.first_entries().get(relation.name, 0))
    found = []
    for _, _, parts in db.inserts.entries(max(first, db.inserts.first()), db.inserts.head(), {relation.name}):
        found += [(part.table, part.info["weight"]) for part in parts]
    return found


def _source_rows(db: Database, relation: Relation, schema: pa.Schema, as_of: int | None) -> pa.Table:
    """The rows of a source are not kept; while the insert log still has them all they can be read from there."""
    first = db.ledger.first_entries().get(relation.name, 0)
    if relation.connector is not None or db.inserts.first() > first:
        raise errors.make(
            "NOT_SUPPORTED",
            message=f"the rows of source {relation.name} are not kept",
            hint=f"CREATE MATERIALIZED VIEW ... AS SELECT * FROM {relation.name} keeps them",
        )
    last = db.log.last() if as_of is None else as_of
    tables = [schema.empty_table()]
    for header in db.log.headers():
        end = header.entry
        if header.step <= last and end > first:
            given = [part for _, _, parts in db.inserts.entries(first, end, {relation.name}) for part in parts]
            late = Counter(each.row for each in db.log.late(header) if _at_door(each, relation))
            tables += [_accepted(part.table.cast(schema), late) for part in given]
            first = end
    return pa.concat_tables(tables)


def _at_door(late: LateRow, relation: Relation) -> bool:
    return late.view is None and late.relation == relation.name


def _accepted(rows: pa.Table, late: Counter[str]) -> pa.Table:
    """The rows that were not late when they came."""
    if not late:
        return rows
    kept = []
    for row in rows.to_pylist():
        text = row_json(row)
        kept.append(late[text] == 0)
        late[text] -= late[text] > 0
    return rows.filter(pa.array(kept))


def _system(db: Database) -> SystemRelations:
    def sizes() -> dict[str, tuple[int, int, int]]:
        return {} if db.read_only else db.engine.state_sizes(db.catalog, db.ledger)

    def ready() -> dict[str, bool]:
        return readiness(db)

    def letters() -> list[dict[str, Any]]:
        return [letter for folder in sorted(db.folder.sinks.glob("*")) for letter in dead_letters(folder)]

    return SystemRelations(db.log, lambda: db.catalog, db.log.count, sizes, ready, letters)
