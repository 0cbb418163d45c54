"""The event bus: a relation that every database has. Sources without columns, INSERT and the results of views feed
it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.catalog.relation import Relation, TimeNote
from tidegate.core.schema import Column

BUS = "pgcdc_events"
RESULTS = "pgcdc:_view:"
"""Prefix of the channels of view results. No view reads their events."""

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "VIEW_RESULT")
TIME = "created_at"

EVENTS = Relation(
    name=BUS,
    kind="source",
    columns=(
        Column("id", "string"),
        Column("channel", "string"),
        Column("operation", "string"),
        Column("payload", "string"),
        Column("source", "string"),
        Column(TIME, "timestamp"),
        Column("transaction", "string"),
    ),
    sql="",
    append_only=True,
    times=(TimeNote(TIME, "watermark"),),
    options=(("idle_timeout", "1s"),),
    changes="append",
)


OF_VIEW = "'s events"
DEFAULT_GROUPS = 100_000
DEFAULT_IDLE = "10s"
"""Defaults of views over the bus: the cap on groups, and the idle timeout of their event time."""


def events_of(view: str) -> str:
    """The name under which the event time of a view over the bus is tracked."""
    return f"{view}{OF_VIEW}"


def is_bus(name: str) -> bool:
    return name.casefold() == BUS


def complete_events(rows: pa.Table, now: int) -> pa.Table:
    """Events with an id, an operation and a time where they had none; `now` is in microseconds."""
    if not rows.num_rows:
        return rows
    defaults = {
        "id": pa.array([str(uuid.uuid4()) for _ in range(rows.num_rows)]) if rows.column("id").null_count else None,
        "operation": "INSERT",
        TIME: pa.scalar(now, pa.int64()).cast(rows.schema.field(TIME).type),
    }
    for name, value in defaults.items():
        if value is not None and rows.column(name).null_count:
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, rows.schema.field(name), pc.coalesce(rows.column(name), value))
    return rows


def documents_as_text(rows: Any) -> Any:
    """Rows of events in which documents are JSON text; in dicts they may be dicts or lists."""
    if not isinstance(rows, list):
        return rows
    return [
        {name: json.dumps(value) if _is_document(name, value) else value for name, value in row.items()}
        if isinstance(row, Mapping)
        else row
        for row in rows
    ]


def _is_document(name: Any, value: Any) -> bool:
    return name in ("payload", "transaction") and isinstance(value, dict | list)
