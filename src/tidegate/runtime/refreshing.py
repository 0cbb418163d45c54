"""Tables that are read as a whole, from elsewhere: at the start, when they are told to, or from time to time."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from tidegate import errors
from tidegate.catalog.relation import Relation
from tidegate.connectors.base import Refreshed
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.schema import names
from tidegate.runtime.contents import pending, schema_of

if TYPE_CHECKING:
    from tidegate.database import Database

SHOWN_ERRORS = 1000
RETRY_SECONDS = 5.0


def load_tables(db: Database) -> None:
    """Reads the tables that are read as a whole and never were, or whose time has come."""
    now = time.time_ns() // 1000
    known = db.ledger.refreshes()
    for relation in db.catalog.of_kind("table"):
        source = refreshed_source(relation)
        if source is not None and (relation.name not in known or _due(source, known[relation.name].time_us, now)):
            refresh(db, relation, source)


def next_refresh(db: Database) -> float | None:
    """In how many seconds a table has to be read again; None if none has."""
    now = time.time_ns() // 1000
    moments = []
    for relation in db.catalog.of_kind("table"):
        source = refreshed_source(relation)
        if source is not None and source.refresh_every is not None:
            last = db.ledger.refreshes().get(relation.name)
            moments.append(0.0 if last is None else max(0.0, (last.time_us + source.refresh_every - now) / 1e6))
    return min(moments, default=None)


def refreshed_source(relation: Relation) -> Refreshed | None:
    """The connector of a table that is read as a whole at times."""
    if relation.connector is None:
        return None
    from tidegate.spark.engine import is_refreshed, source_of

    source = source_of(relation)
    return source if is_refreshed(source) else None


def refresh_table(db: Database, name: str, span: errors.Span | None = None) -> None:
    """REFRESH TABLE."""
    relation = db.catalog.get(name, span)
    source = refreshed_source(relation) if relation.kind == "table" else None
    if source is None:
        follows = relation.kind == "table" and relation.connector is not None
        raise errors.make(
            "NOT_SUPPORTED",
            message=f"{relation.name} follows its origin by itself" if follows else f"{relation.name} is not read anew",
            hint="create it with refresh = 'manual' to read it when told to"
            if follows
            else "INSERT, UPDATE or DELETE rows",
            span=span,
        )
    refresh(db, relation, source)


class Refresher:
    """Reads tables again when their time has come, while a pipeline runs."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="tidegate-refresher")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while (wait := next_refresh(self._db)) is not None and not self._stopped.wait(max(wait, 0.05)):
            try:
                load_tables(self._db)
            except (OSError, errors.Error) as problem:
                print(f"a table could not be read again: {problem}", file=sys.stderr)
                self._stopped.wait(RETRY_SECONDS)


def _due(source: Refreshed, last_us: int, now_us: int) -> bool:
    return source.refresh_every is not None and now_us - last_us >= source.refresh_every


def refresh(db: Database, relation: Relation, source: Refreshed) -> None:
    """Makes a table what it is elsewhere now, in one step: rows that are no longer there go, those that differ are
    written. Rows that cannot be read are errors of that step, unless the last reading had the same."""
    found = pl.from_arrow(source.content(db.engine.spark))
    assert isinstance(found, pl.DataFrame)
    key, schema = list(relation.primary_key), schema_of(relation.columns)
    good = found.filter(pl.col(ERROR).is_null()).sort(SEQ)
    last = good.unique(key, keep="last", maintain_order=True).filter(pl.col(WEIGHT) > 0).select(names(relation.columns))
    waiting = [rows for rows, _ in pending(db, relation)]
    present = _present(db, relation, schema, waiting)
    gone = present.join(last, on=key, how="anti")
    changed = last if waiting else _changed(last, present)
    tables = [(rows.to_arrow().cast(schema), weight) for rows, weight in ((gone, -1), (changed, 1))]
    refused, digest = _refused(relation, found.filter(pl.col(ERROR).is_not_null()))
    before = db.ledger.refreshes().get(relation.name)
    new = refused if before is None or before.refused != digest else []
    parts = [(relation.name, table, weight) for table, weight in tables if table.num_rows]
    entry = db.inserts.append(parts, {"errors": new} if new else None)
    db.ledger.refreshed(relation.name, entry, time.time_ns() // 1000, digest)


def _refused(relation: Relation, bad: pl.DataFrame) -> tuple[list[list[str]], str]:
    """Rows that could not be read as errors, and a short text that stands for them."""
    found = [
        [relation.name, "MALFORMED_ROW", message, raw or ""]
        for message, raw in bad.select(ERROR, RAW).head(SHOWN_ERRORS).iter_rows()
    ]
    return found, hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def _changed(rows: pl.DataFrame, present: pl.DataFrame) -> pl.DataFrame:
    """The rows that the table does not have as they are. Nested values are not compared: such rows are all written."""
    if any(type.is_nested() for type in rows.dtypes):
        return rows
    return rows.join(present.cast(rows.schema), on=rows.columns, how="anti", nulls_equal=True)


def _present(db: Database, relation: Relation, schema: pa.Schema, waiting: Sequence[pa.Table]) -> pl.DataFrame:
    """Rows that may be in the table: those of the last step, and those that were on their way before it (a step may end
    just now, and then they are in both)."""
    tables = [db.log.content(relation.name, schema, None), *waiting]
    found = pl.from_arrow(pa.concat_tables([table.cast(schema) for table in tables]))
    assert isinstance(found, pl.DataFrame)
    return found.unique(list(relation.primary_key))
