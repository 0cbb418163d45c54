"""The capture of a PostgreSQL database: tables and events of one data folder that come by the same slot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.connectors.contract import Capture, CaptureContext, Intake, SourceSpec
from tidegate.connectors.postgres import slot as slots
from tidegate.connectors.postgres.client import broken, connected, library
from tidegate.connectors.postgres.clock import Clock
from tidegate.connectors.postgres.options import Following, Server
from tidegate.connectors.postgres.preparing import Names, names_of
from tidegate.connectors.postgres.publication import drop_publication
from tidegate.connectors.postgres.record import Record
from tidegate.connectors.postgres.replication import Stopped
from tidegate.connectors.postgres.session import Session
from tidegate.errors import make


class PostgresCapture(Capture):
    """Every transaction is taken in whole, once, with the place behind it. After a break it goes on from there."""

    def __init__(
        self, server: Server, sources: Sequence[tuple[SourceSpec, Following]], context: CaptureContext
    ) -> None:
        self._server, self._sources, self._context = server, sources, context
        self._clock = Clock(context.now)
        self._watch = slots.Watch(min(following.max_slot_lag for _, following in sources), server)
        self._figures = {"rows_taken_total": 0.0}
        self._runs = 0

    def catch_up(self, intake: Intake) -> None:
        self._run(intake, once=True)

    def follow(self, intake: Intake) -> None:
        self._run(intake, once=False)

    def metrics(self) -> Mapping[str, float]:
        """`slot_lag_bytes`: what has not been taken in yet; `slot_retained_bytes`: WAL that the server keeps for it."""
        return dict(self._figures)

    def drop_remote_state(self) -> None:
        """Drops the slot and the publication if they were made here; those of the user stay. Without a record nothing
        was made."""
        if not any(self._context.folder.glob("*.json")):
            return
        with self._connected() as connection:
            names, record = self._names(connection)
            if names.own_slot or record.facts.slot:
                slots.drop_slot(connection, names.slot)
            if names.own_publication or record.facts.publication:
                drop_publication(connection, names.publication)
            record.forget()

    def _run(self, intake: Intake, once: bool) -> None:
        self._runs += 1
        with contextlib.suppress(Stopped), self._connected() as side:
            names, record = self._names(side)
            session = Session(
                self._server, self._sources, names, record, side, intake, self._clock, self._look, self._count
            )
            session.run(once, again=self._runs > 1)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection for questions. One that breaks may be there again later; what the server refuses is an error."""
        driver = library()
        try:
            with contextlib.closing(connected(self._server, autocommit=True)) as connection:
                yield connection
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None
        except driver.DatabaseError as failure:
            said = failure.diag.message_primary or str(failure)
            raise make(
                "PIPELINE_FAILED",
                message=f"PostgreSQL at {self._server.place} refused to go on: {said}",
                detail=failure.diag.message_detail,
                hint=failure.diag.message_hint or "change the database or the user's rights, then start again",
            ) from None

    def _names(self, connection: Any) -> tuple[Names, Record]:
        database = connection.execute("SELECT current_database()").fetchone()[0]
        names = names_of(self._sources[0][1], self._context.owner, database)
        return names, Record(self._context.folder, names.slot)

    def _look(self, slot: slots.Slot) -> None:
        self._figures |= {"slot_lag_bytes": float(slot.lag), "slot_retained_bytes": float(slot.retained)}
        self._watch.look(slot)

    def _count(self, rows: int) -> None:
        self._figures["rows_taken_total"] += rows
