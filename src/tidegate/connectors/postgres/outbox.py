"""`FROM OUTBOX`: rows that an application inserts into a table for others, as events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, Intake, SourceSpec
from tidegate.connectors.postgres.client import AS_TEXT, broken, connected, library, quoted
from tidegate.connectors.postgres.events import encoder, json_payload
from tidegate.connectors.postgres.notify import EventCapture, EventSource
from tidegate.connectors.postgres.options import Server, reject_columns, server_options, table_name
from tidegate.connectors.postgres.tables import OriginTable, find_table
from tidegate.core.option_models import DURATION, OptionModel, Parsed, whole_number
from tidegate.core.options import Bag
from tidegate.errors import enumerated, make
from tidegate.formats.events import Event

COLUMNS = {
    "id": ("id",),
    "channel": ("channel", "aggregatetype", "aggregate_type"),
    "operation": ("operation", "event_type", "type"),
    "payload": ("payload",),
    "created_at": ("created_at",),
}
"""Usual names of the columns of an outbox, in order of preference; options such as `id_column` override them."""

NEEDED = ("id", "channel", "payload")
DEFAULT_POLL = timedelta(milliseconds=500)


class TableOptions(OptionModel):
    """Options of `FROM OUTBOX` beside those of the server."""

    table: Annotated[tuple[str, ...], Parsed(table_name, "a name such as 'outbox' or 'sales.outbox'")] = Field(
        ("outbox",), description="The outbox."
    )
    id_column: str | None = Field(None, description="Column of the id, which must be unique.")
    channel_column: str | None = Field(None, description="Column of the channel.")
    operation_column: str | None = Field(None, description="Column of the operation.")
    payload_column: str | None = Field(None, description="Column of the payload.")
    created_at_column: str | None = Field(None, description="Column that orders the rows.")
    keep: bool = Field(False, description="Mark rows instead of deleting them.")
    processed_column: str = Field("processed_at", description="Column in which rows are marked.")
    poll_interval: Annotated[timedelta, DURATION] = Field(DEFAULT_POLL, description="Pause after the outbox was empty.")
    batch_size: Annotated[int, whole_number(1)] = Field(1000, description="Rows per transaction.")


@dataclass(frozen=True)
class OutboxOptions:
    """Where an outbox is, and the possible names of its columns by their role."""

    server: Server
    read: TableOptions
    columns: dict[str, Sequence[str]]


def outbox_options(bag: Bag) -> OutboxOptions:
    """Take a source's options out of the bag."""
    server, options = server_options(bag), TableOptions.take(bag)
    columns = {role: _spellings(getattr(options, f"{role}_column"), names) for role, names in COLUMNS.items()}
    return OutboxOptions(server, options, columns)


def _spellings(name: str | None, defaults: Sequence[str]) -> Sequence[str]:
    return defaults if name is None else (name,)


_COLUMNS = """
SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True)
class OutboxTable:
    """Statements on an outbox. `locking` selects and locks the next rows (id, channel, payload, operation, created_at),
    without those that others have locked; `removal` removes rows by id. `identity` identifies the table."""

    identity: str
    locking: str
    removal: str


def find_outbox(connection: Any, options: OutboxOptions) -> OutboxTable:
    table = find_table(connection, options.read.table, options.server, "table")
    types = dict(connection.execute(_COLUMNS, (table.oid,)).fetchall())
    names = {role: next((name for name in options.columns[role] if name in types), None) for role in COLUMNS}
    missing = [(role, options.columns[role]) for role in NEEDED if names[role] is None]
    processed = options.read.processed_column
    if options.read.keep and processed not in types:
        missing.append(("processed", (processed,)))
    if missing:
        role, spellings = missing[0]
        raise make(
            "PIPELINE_FAILED",
            message=f"outbox {table.sql} at {options.server.place} has no column {enumerated(spellings)}",
            detail=f"its columns are {', '.join(types)}",
            hint=f"say which one it is: {role}_column = '...'"
            if role != "processed"
            else f"ALTER TABLE {table.sql} ADD COLUMN {quoted(processed)} timestamptz; then start again",
        )
    return _statements(table, options, names, types)


def _statements(
    table: OriginTable, options: OutboxOptions, names: Mapping[str, str | None], types: Mapping[str, str]
) -> OutboxTable:
    key, created, processed = names["id"] or "", names["created_at"], quoted(options.read.processed_column)
    roles = (names[role] for role in ("id", "channel", "payload", "operation", "created_at"))
    columns = ", ".join("NULL" if name is None else f"t.{quoted(name)}::text" for name in roles)
    order = ", ".join(f"t.{quoted(name)}" for name in (created, key) if name is not None)
    waiting = f"WHERE {processed} IS NULL " if options.read.keep else ""
    by_id = f"{quoted(key)} = ANY (%s::text[]::{types[key]}[])"
    marking = f"UPDATE {table.sql} SET {processed} = now() WHERE {processed} IS NULL AND {by_id}"
    return OutboxTable(
        f"{options.server.place} {table.oid}",
        f"SELECT {columns} FROM {table.sql} t {waiting}ORDER BY {order} LIMIT {options.read.batch_size}"
        " FOR UPDATE SKIP LOCKED",
        marking if options.read.keep else f"DELETE FROM {table.sql} WHERE {by_id}",
    )


_TIMESTAMPTZ = 1184


class OutboxCapture(EventCapture):
    """Locks a batch of rows, removes it, and appends it with its ids before the removal is committed. A run that is
    interrupted in between is completed by the next one, which begins by removing those ids."""

    def __init__(self, relation: str, options: OutboxOptions, context: CaptureContext) -> None:
        super().__init__(relation, context)
        self._options = options
        self._poll_seconds = (options.read.poll_interval or DEFAULT_POLL).total_seconds()

    def _run(self, intake: Intake, once: bool) -> None:
        driver, server = library(), self._options.server
        try:
            with closing(connected(server, options=AS_TEXT, autocommit=True)) as connection:
                table = find_outbox(connection, self._options)
                self._remove_taken(connection, table, intake)
                while not intake.stopped.is_set():
                    if self._batch(connection, table, intake) == self._options.read.batch_size:
                        continue
                    if once:
                        return
                    intake.stopped.wait(self._poll_seconds)
        except driver.errors.InsufficientPrivilege as rejected:
            name, right = quoted(*self._options.read.table), "UPDATE" if self._options.read.keep else "UPDATE, DELETE"
            raise make(
                "PIPELINE_FAILED",
                message=f"{server.user} may not take rows out of {name} at {server.place}:"
                f" {rejected.diag.message_primary}",
                hint=f"as its owner: GRANT SELECT, {right} ON {name} TO {quoted(server.user)}; then start again",
            ) from None
        except driver.OperationalError as failure:
            raise broken(server, failure) from None

    def _remove_taken(self, connection: Any, table: OutboxTable, intake: Intake) -> None:
        """Remove the last batch again: the run that appended it may have ended before the commit."""
        before = intake.position
        if before is not None and before["of"] == table.identity:
            connection.execute(table.removal, (before["ids"],))

    def _batch(self, connection: Any, table: OutboxTable, intake: Intake) -> int:
        """Append the next batch and return its number of rows."""
        with connection.transaction():
            rows = connection.execute(table.locking).fetchall()
            if rows:
                self._remove(connection, table, [row[0] for row in rows])
                self._append_rows(rows, table, intake)
        return len(rows)

    def _remove(self, connection: Any, table: OutboxTable, ids: Sequence[str | None]) -> None:
        """Remove rows, all of them: a row that stays would be appended again and again."""
        removed = connection.execute(table.removal, (ids,)).rowcount
        if removed != len(ids):
            name, verb = quoted(*self._options.read.table), "marked" if self._options.read.keep else "deleted"
            raise make(
                "PIPELINE_FAILED",
                message=f"{len(ids)} rows of {name} at {self._options.server.place} would be taken,"
                f" but {removed} {verb}",
                detail="the id is not unique or is NULL, or a trigger, a rule or a policy of the table is in the way",
                hint="mend that, then start again; nothing was taken",
            )

    def _append_rows(self, rows: Sequence[Sequence[str | None]], table: OutboxTable, intake: Intake) -> None:
        now = self._now(intake.position)
        position = {"of": table.identity, "ids": [row[0] for row in rows], "time": now}
        self._append(intake, [self._event(row, now) for row in rows], position)

    def _event(self, row: Sequence[str | None], now: int) -> Event:
        identity, channel, payload, operation, created = row
        note = {"id": identity} | ({} if created is None else {"created_at": json.loads(_moment(created))})
        document = "null" if payload is None else json_payload(payload)
        name = f"{self._relation}-{identity}"
        return Event(name, channel or "", _operation(operation), document, self._relation, now, json.dumps(note))


_moment = encoder(_TIMESTAMPTZ)


def _operation(text: str | None) -> str:
    """INSERT, UPDATE and DELETE in capital letters; any other name of an event unchanged."""
    if not text:
        return "INSERT"
    return text.upper() if text.upper() in ("INSERT", "UPDATE", "DELETE", "TRUNCATE") else text


@dataclass(frozen=True)
class OutboxSource(EventSource):
    """Each row of the table becomes one event, exactly once, and is deleted or marked."""

    options: OutboxOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> OutboxSource:
        reject_columns(spec, bag)
        options = outbox_options(bag)
        return cls(spec, options.server, options)

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return OutboxCapture(self.spec.relation, self.options, context)
