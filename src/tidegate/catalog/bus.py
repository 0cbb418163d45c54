"""The event bus: a relation that every database has, under a name of its own. Sources without columns, INSERT and the
results of views feed it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.catalog.relation import Relation, TimeNote
from tidegate.core.schema import Column

BUS = "pgcdc_events"
RESULTS = "pgcdc:_view:"
"""How the channels of view results begin. No view counts their events."""

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
"""What a view over the bus has when its options do not say: a cap on groups, and when its event time is idle."""


def events_of(view: str) -> str:
    """The name under which the event time of a view over the bus is tracked."""
    return f"{view}{OF_VIEW}"


def is_bus(name: str) -> bool:
    return name.casefold() == BUS


def documents_as_text(rows: Any) -> Any:
    """Events given as dicts may have their documents as dicts, too."""
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
