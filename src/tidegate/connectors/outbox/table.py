"""An outbox table as the server has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.outbox.options import COLUMNS, NEEDED, OutboxOptions
from tidegate.connectors.postgres.naming import quoted
from tidegate.connectors.postgres.origin import OriginTable, find_table
from tidegate.errors import enumerated, make

_COLUMNS = """
SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True)
class OutboxTable:
    """`locking`: the next rows (id, channel, payload, operation, created_at), which are locked; rows that others have
    locked are left alone. `removal`: what makes rows of given ids go. `identity` tells it from other tables."""

    identity: str
    locking: str
    removal: str


def find_outbox(connection: Any, options: OutboxOptions) -> OutboxTable:
    table = find_table(connection, options.table, options.server, "table")
    types = dict(connection.execute(_COLUMNS, (table.oid,)).fetchall())
    names = {role: next((name for name in options.columns[role] if name in types), None) for role in COLUMNS}
    wanted = [(role, options.columns[role]) for role in NEEDED if names[role] is None]
    if options.keep and options.processed not in types:
        wanted.append(("processed", (options.processed,)))
    if wanted:
        role, spellings = wanted[0]
        raise make(
            "PIPELINE_FAILED",
            message=f"outbox {table.sql} at {options.server.place} has no column {enumerated(spellings)}",
            detail=f"its columns are {', '.join(types)}",
            hint=f"say which one it is: {role}_column = '...'"
            if role != "processed"
            else f"ALTER TABLE {table.sql} ADD COLUMN {quoted(options.processed)} timestamptz; then start again",
        )
    return _statements(table, options, names, types)


def _statements(
    table: OriginTable, options: OutboxOptions, names: Mapping[str, str | None], types: Mapping[str, str]
) -> OutboxTable:
    key, created, mark = names["id"] or "", names["created_at"], quoted(options.processed)
    roles = (names[role] for role in ("id", "channel", "payload", "operation", "created_at"))
    chosen = ", ".join("NULL" if name is None else f"t.{quoted(name)}::text" for name in roles)
    order = ", ".join(f"t.{quoted(name)}" for name in (created, key) if name is not None)
    waiting = f"WHERE {mark} IS NULL " if options.keep else ""
    there = f"{quoted(key)} = ANY (%s::text[]::{types[key]}[])"
    marked = f"UPDATE {table.sql} SET {mark} = now() WHERE {mark} IS NULL AND {there}"
    return OutboxTable(
        f"{options.server.place} {table.oid}",
        f"SELECT {chosen} FROM {table.sql} t {waiting}ORDER BY {order} LIMIT {options.batch} FOR UPDATE SKIP LOCKED",
        marked if options.keep else f"DELETE FROM {table.sql} WHERE {there}",
    )
