"""`FROM OUTBOX`: rows that an application puts into a table for others, as events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, Intake, SourceSpec
from tidegate.connectors.postgres.client import AS_TEXT, broken, connected, library, quoted
from tidegate.connectors.postgres.events import encoder, json_payload
from tidegate.connectors.postgres.options import Server, reject_columns, server_options, table_name
from tidegate.connectors.postgres.position import Clock
from tidegate.connectors.postgres.tables import OriginTable, find_table
from tidegate.core.options import Bag
from tidegate.errors import enumerated, make
from tidegate.formats.events import Event, rows_of

COLUMNS = {
    "id": ("id",),
    "channel": ("channel", "aggregatetype", "aggregate_type"),
    "operation": ("operation", "event_type", "type"),
    "payload": ("payload",),
    "created_at": ("created_at",),
}
"""What the columns of an outbox are called unless an option such as `id_column` says it; the first that is there."""

NEEDED = ("id", "channel", "payload")
_POLL = timedelta(milliseconds=500)


@dataclass(frozen=True)
class OutboxOptions:
    """`keep`: rows that were taken are marked in the column `processed` instead of being deleted."""

    server: Server
    table: tuple[str, ...]
    columns: dict[str, Sequence[str]]
    keep: bool
    processed: str
    poll_interval: timedelta
    batch: int


def outbox_options(bag: Bag) -> OutboxOptions:
    """Take a source's options out of the bag."""
    server = server_options(bag)
    table = bag.take("table", table_name, "a name such as 'outbox' or 'sales.outbox'")
    columns = {name: _spellings(bag.text(f"{name}_column"), usual) for name, usual in COLUMNS.items()}
    return OutboxOptions(
        server,
        table or ("outbox",),
        columns,
        bag.boolean("keep"),
        bag.text("processed_column", "processed_at") or "processed_at",
        bag.duration("poll_interval", _POLL) or _POLL,
        bag.integer("batch_size", 1000, minimum=1) or 1000,
    )


def _spellings(given: str | None, usual: Sequence[str]) -> Sequence[str]:
    return usual if given is None else (given,)


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


_TIMESTAMPTZ = 1184


class OutboxCapture(Capture):
    """A batch is locked, removed, and put on record together with its ids, before the removal is committed. If that is
    cut off in between, the next run begins with removing it."""

    def __init__(self, relation: str, options: OutboxOptions, context: CaptureContext) -> None:
        self._relation, self._options = relation, options
        self._clock = Clock(context.now)
        self._taken = 0

    def catch_up(self, intake: Intake) -> None:
        self._run(intake, once=True)

    def follow(self, intake: Intake) -> None:
        self._run(intake, once=False)

    def metrics(self) -> Mapping[str, float]:
        return {"rows_taken_total": float(self._taken)}

    def _run(self, intake: Intake, once: bool) -> None:
        driver, server = library(), self._options.server
        try:
            with closing(connected(server, options=AS_TEXT, autocommit=True)) as connection:
                table = find_outbox(connection, self._options)
                self._remove_taken(connection, table, intake)
                while not intake.stopped.is_set():
                    if self._batch(connection, table, intake) == self._options.batch:
                        continue
                    if once:
                        return
                    intake.stopped.wait(self._options.poll_interval.total_seconds())
        except driver.errors.InsufficientPrivilege as refused:
            name, right = quoted(*self._options.table), "UPDATE" if self._options.keep else "UPDATE, DELETE"
            raise make(
                "PIPELINE_FAILED",
                message=f"{server.user} may not take rows out of {name} at {server.place}:"
                f" {refused.diag.message_primary}",
                hint=f"as its owner: GRANT SELECT, {right} ON {name} TO {quoted(server.user)}; then start again",
            ) from None
        except driver.OperationalError as failure:
            raise broken(server, failure) from None

    def _remove_taken(self, connection: Any, table: OutboxTable, intake: Intake) -> None:
        """What was taken the last time may still be there."""
        before = intake.position
        if before is not None and before["of"] == table.identity:
            connection.execute(table.removal, (before["ids"],))

    def _batch(self, connection: Any, table: OutboxTable, intake: Intake) -> int:
        """How many rows there were."""
        with connection.transaction():
            rows = connection.execute(table.locking).fetchall()
            if rows:
                self._remove(connection, table, [row[0] for row in rows])
                self._take_in(rows, table, intake)
        return len(rows)

    def _remove(self, connection: Any, table: OutboxTable, ids: Sequence[str | None]) -> None:
        """Rows that would stay although they are taken would be taken again and again."""
        gone = connection.execute(table.removal, (ids,)).rowcount
        if gone != len(ids):
            name, done = quoted(*self._options.table), "marked" if self._options.keep else "deleted"
            raise make(
                "PIPELINE_FAILED",
                message=f"{len(ids)} rows of {name} at {self._options.server.place} would be taken, but {gone} {done}",
                detail="the id is not unique or is NULL, or a trigger, a rule or a policy of the table is in the way",
                hint="mend that, then start again; nothing was taken",
            )

    def _take_in(self, rows: Sequence[Sequence[str | None]], table: OutboxTable, intake: Intake) -> None:
        self._clock.not_before((intake.position or {"time": 0})["time"])
        now = self._clock.now()
        position = {"of": table.identity, "ids": [row[0] for row in rows], "time": now}
        intake.append([(BUS, rows_of([self._event(row, now) for row in rows]), 1)], position)
        self._taken += len(rows)

    def _event(self, row: Sequence[str | None], now: int) -> Event:
        identity, channel, payload, operation, created = row
        note = {"id": identity} | ({} if created is None else {"created_at": json.loads(_moment(created))})
        said = "null" if payload is None else json_payload(payload)
        name = f"{self._relation}-{identity}"
        return Event(name, channel or "", _operation(operation), said, self._relation, now, json.dumps(note))


_moment = encoder(_TIMESTAMPTZ)


def _operation(said: str | None) -> str:
    """INSERT, UPDATE and DELETE in any case; the name of an event as it is."""
    if not said:
        return "INSERT"
    return said.upper() if said.upper() in ("INSERT", "UPDATE", "DELETE", "TRUNCATE") else said


@dataclass(frozen=True)
class OutboxSource(CapturedSource):
    """Each row of the table is one event, exactly once; then the row is deleted, or marked."""

    options: OutboxOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> OutboxSource:
        reject_columns(spec, bag)
        return cls(spec, outbox_options(bag))

    @property
    def session(self) -> str:
        return f"OUTBOX {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return OutboxCapture(self.spec.relation, self.options, context)
