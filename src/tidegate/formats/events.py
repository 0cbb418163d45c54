"""Events of the bus: as rows, and as JSON objects."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.catalog.bus import EVENTS
from tidegate.core.render import json_cells, json_value
from tidegate.core.types import arrow_type

SCHEMA = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in EVENTS.columns])


class Event(NamedTuple):
    """One event. `payload` and `transaction` are JSON texts; `created_at` is in microseconds since 1970."""

    id: str
    channel: str
    operation: str
    payload: str
    source: str
    created_at: int
    transaction: str | None = None


def rows_of(events: Sequence[Event]) -> pa.Table:
    """Convert events to rows of the bus."""
    columns = zip(*events, strict=True) if events else [[] for _ in SCHEMA]
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(values, field.type)
        for field, values in zip(SCHEMA, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def event_objects(table: pa.Table) -> Iterator[str]:
    """Render each event as a JSON object. A payload that is JSON is nested, any other is a string."""
    cells = [
        _json(table.column(field.name)) if field.name in _NESTED else json_cells(table.column(field.name))
        for field in SCHEMA
    ]
    template = "{" + ",".join(f'"{field.name}":%s' for field in SCHEMA) + "}"
    return (template % row for row in zip(*cells, strict=True))


_NESTED = ("payload", "transaction")


def _json(column: pa.ChunkedArray[Any]) -> list[str]:
    return [_nested(text) for text in column.to_pylist()]


def _nested(text: str | None) -> str:
    if text is None:
        return "null"
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text, ensure_ascii=False)
    return text if "\n" not in text else json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def rfc3339(time_us: int) -> str:
    """`2024-05-01T12:00:03.25Z`"""
    time = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=time_us)
    return str(json_value(time))


def matching(table: pa.Table, patterns: Sequence[str]) -> pa.Table:
    """Filter events by channel: `*` in a pattern matches any text, `?` one character."""
    if not patterns or "*" in patterns:
        return table
    matches = [pc.match_substring_regex(table.column("channel"), _regex(pattern)) for pattern in patterns]
    chosen = matches[0]
    for other in matches[1:]:
        chosen = pc.or_(chosen, other)
    return table.filter(chosen)


def _regex(pattern: str) -> str:
    parts = {"*": ".*", "?": "."}
    return "^(?s:" + "".join(parts.get(sign) or re.escape(sign) for sign in pattern) + ")$"
