"""Takes rows out of an outbox table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake
from tidegate.connectors.outbox.options import OutboxOptions
from tidegate.connectors.outbox.table import OutboxTable, find_outbox
from tidegate.connectors.postgres.client import AS_TEXT, broken, connected, library
from tidegate.connectors.postgres.clock import Clock
from tidegate.connectors.postgres.naming import quoted
from tidegate.connectors.postgres.payloads import encoder, json_payload
from tidegate.errors import make
from tidegate.formats.events import Event, rows_of

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
