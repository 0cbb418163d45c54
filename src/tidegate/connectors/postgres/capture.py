"""The capture of a PostgreSQL database: tables and events of one data folder that share a slot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from tidegate.connectors.contract import Capture, CaptureContext, Intake, RejectedRow, Rows, SourceSpec
from tidegate.connectors.postgres import slot as slots
from tidegate.connectors.postgres.batch import ChangeBatch, ToBus, ToTable
from tidegate.connectors.postgres.client import Unreachable, broken, connected, library
from tidegate.connectors.postgres.events import EventBuffer, Types
from tidegate.connectors.postgres.following import Follower
from tidegate.connectors.postgres.keyed_rows import TableBuffer
from tidegate.connectors.postgres.options import Following, Server
from tidegate.connectors.postgres.publication import Followed, Names, drop_publication, names_of, prepare
from tidegate.connectors.postgres.replication import (
    ReplicationError,
    Stopped,
    Stream,
    lsn_text,
    parse_lsn,
    reached_by_stream,
)
from tidegate.connectors.postgres.slot import Clock, Record, SourcePosition, parse_position
from tidegate.connectors.postgres.snapshot import InitialLoad, Snapshot
from tidegate.connectors.postgres.tables import OriginTable, check_parts, same_tables
from tidegate.core.retry import Backoff, retry
from tidegate.errors import Error, enumerated, make

_IN_USE, _UNKNOWN, _NO_MORE = "55006", "42704", "53400"
_PATIENCE, _BACKOFF = 5.0, Backoff(first=0.1, longest=0.1)


class Session:
    """A run of the capture: the stream, and a second connection (`side`) for queries. `look` receives the state of the
    slot periodically, `count` the number of rows appended."""

    def __init__(
        self,
        server: Server,
        sources: Sequence[tuple[SourceSpec, Following]],
        names: Names,
        record: Record,
        side: Any,
        intake: Intake,
        clock: Clock,
        look: Callable[[slots.Slot], None],
        count: Callable[[int], None],
    ) -> None:
        self._server, self._names, self._record, self._side = server, names, record, side
        self._intake, self._clock, self._look, self._count = intake, clock, look, count
        self._followed = prepare(side, server, sources, names, record)
        self._relations = [one.spec.relation for one in self._followed]
        self._position = parse_position(intake.position, record.facts.life)

    def run(self, once: bool, again: bool) -> None:
        """Append what exists now (`once`), or everything until the capture is stopped. `again`: this is not the first
        run, so a lost connection may still hold the slot."""
        slot = self._whole_slot()
        until = self._current_lsn() if once else None
        with closing(Stream(self._server, self._names.slot)) as stream:
            try:
                self._run(stream, slot, until, again)
            except ReplicationError as rejected:
                raise self._rejected(rejected) from None

    def _run(self, stream: Stream, slot: slots.Slot | None, until: int | None, again: bool) -> None:
        position = self._load_new(stream, slot)
        batch = self._batch(position)
        self._start(stream, position, again)
        self._look_at_slot()
        look = self._check_tables if until is None else self._look_at_slot
        follower = Follower(stream, batch, self._append, self._record.keep, self._snapshot, look, self._intake.stopped)
        follower.run(until)
        self._look_at_slot()

    def _whole_slot(self) -> slots.Slot | None:
        slot = slots.find_slot(self._side, self._names.slot, self._server)
        appended = None if self._position is None else self._position.lsn
        highest = max(appended or 0, self._record.facts.confirmed)
        slots.check_whole(slot, self._names.slot, appended, highest, self._server, self._relations)
        return slot

    def _load_new(self, stream: Stream, slot: slots.Slot | None) -> SourcePosition:
        """Load new relations and return the position to continue from."""
        stopped = self._intake.stopped
        load = InitialLoad(self._server, self._side, stream, self._names, self._record, slot, self._clock.now, stopped)
        fresh = load.fresh(self._followed, self._position)
        if self._position is not None:
            self._clock.not_before(self._position.time_us)
            dropped = self._position.since.keys() - set(self._relations)
            remaining = {name: since for name, since in self._position.since.items() if name not in dropped}
            self._position = replace(self._position, since=remaining)
            if not fresh and not dropped:
                return self._position
        batch = self._batch(self._position)
        self._position = load.begin(fresh, self._position, batch)
        self._append(*batch.take(), self._position.lsn)
        return self._position

    def _batch(self, position: SourcePosition | None) -> ChangeBatch:
        types = Types()
        batch = ChangeBatch(
            [ToBus(EventBuffer(one.spec.relation), one) for one in self._followed if not one.keyed],
            [ToTable(TableBuffer(one.spec), one.tables[0]) for one in self._followed if one.keyed],
            position.lsn if position is not None else 0,
            self._clock.now,
            lambda table: types.encoders(table, self._side),
        )
        if position is not None:
            for bus in batch.bus:
                bus.rows.since = position.since[bus.rows.relation].lsn if bus.rows.relation in position.since else 0
            for keyed in batch.keyed:
                name = keyed.rows.spec.relation
                keyed.rows.since = position.since[name].lsn if name in position.since else 0
        return batch

    def _start(self, stream: Stream, position: SourcePosition, again: bool) -> None:
        """Start the stream. Waits a moment if the slot is in use: a connection just closed may still hold it."""
        names = self._names

        def start() -> None:
            stream.start(names.slot, [names.publication], position.lsn, self._intake.stopped)

        try:
            retry(start, _is_in_use, _BACKOFF, _PATIENCE)
        except ReplicationError as rejected:
            if rejected.state != _IN_USE:
                raise
            raise self._in_use(again) from None

    def _in_use(self, again: bool) -> Exception:
        slot = slots.find_slot(self._side, self._names.slot, self._server)
        error = slots.in_use(self._names.slot, None if slot is None else slot.holder, self._server)
        return Unreachable(error.message, "") if again else error

    def _append(self, rows: Sequence[Rows], rejected: Sequence[RejectedRow], end: int) -> None:
        assert self._position is not None
        self._position = replace(self._position, lsn=end, time_us=self._clock.last)
        self._intake.append(rows, self._position.to_json(), rejected)
        self._count(sum(table.num_rows for _, table, _ in rows))

    def _check_tables(self) -> None:
        """Check that the tables are still as they were at the start, and look at the slot."""
        existing = same_tables(self._side, [table for one in self._followed for table in one.tables])
        for one in self._followed:
            self._compare(one, [existing[table.oid] for table in one.tables if table.oid in existing])
        self._look_at_slot()

    def _look_at_slot(self) -> None:
        """Report how much WAL the server retains."""
        slot = slots.find_slot(self._side, self._names.slot, self._server)
        if slot is not None:
            self._look(slot)

    def _compare(self, one: Followed, now: Sequence[OriginTable]) -> None:
        for table in now:
            check_parts(table)
        if one.keyed and not now:
            raise Unreachable(f"table {one.tables[0].sql} at {self._server.place} was dropped", "")
        if one.keyed and replace(one, tables=now).form.rewritten(one.form):
            raise Unreachable(f"the rows of table {one.tables[0].sql} were written anew", "they are read again")

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._server)

    def _current_lsn(self) -> int:
        return reached_by_stream(
            parse_lsn(self._side.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0])
        )

    def _rejected(self, rejected: ReplicationError) -> Error:
        relations, place = enumerated(self._relations, "and"), self._server.place
        if rejected.state == _UNKNOWN and "publication" in rejected.message and self._position is not None:
            return make(
                "PIPELINE_FAILED",
                message=f"publication {self._names.publication} is gone from PostgreSQL at {place}",
                detail=f"the changes since {lsn_text(self._position.lsn)} cannot be told apart any more",
                hint=f"DROP and CREATE {relations} again: a table is then read as a whole, events go on from now",
            )
        if rejected.state == _NO_MORE:
            return make(
                "PIPELINE_FAILED",
                message=f"PostgreSQL at {place} has no room for another slot: {rejected.message}",
                hint="raise max_replication_slots and restart the server, or drop a slot that is not needed: SELECT"
                " pg_drop_replication_slot('...');",
            )
        return make(
            "PIPELINE_FAILED",
            message=f"PostgreSQL at {place} does not send the changes of slot {self._names.slot}: {rejected.message}",
            hint=f"if that cannot be mended: DROP and CREATE {relations} again",
        )


class PostgresCapture(Capture):
    """Appends every transaction whole and once, with the position behind it. After a failure it resumes from there."""

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
        """`slot_lag_bytes`: WAL not confirmed yet; `slot_retained_bytes`: WAL that the server retains for the slot."""
        return dict(self._figures)

    def drop_remote_state(self) -> None:
        """Drop the slot and the publication if this capture created them. Without a record it created nothing."""
        if not any(self._context.folder.glob("*.json")):
            return
        with self._connected() as connection:
            names, record = self._names(connection)
            if names.own_slot or record.facts.slot:
                slots.drop_slot(connection, names.slot)
            if names.own_publication or record.facts.publication:
                drop_publication(connection, names.publication)
            record.remove()

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
        """Connect for queries. A lost connection is retried later; what the server rejects is an error."""
        driver = library()
        try:
            with contextlib.closing(connected(self._server, autocommit=True)) as connection:
                yield connection
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None
        except driver.DatabaseError as failure:
            reason = failure.diag.message_primary or str(failure)
            raise make(
                "PIPELINE_FAILED",
                message=f"PostgreSQL at {self._server.place} stopped replication: {reason}",
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


def _is_in_use(problem: Exception) -> bool:
    return isinstance(problem, ReplicationError) and problem.state == _IN_USE
