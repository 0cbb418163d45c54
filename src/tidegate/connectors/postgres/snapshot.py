"""The initial load: the content of tables that are new to a capture, consistent with the LSN of their first change."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.postgres.batch import ChangeBatch
from tidegate.connectors.postgres.client import PATIENT, Unreachable, broken, connected, library, quoted
from tidegate.connectors.postgres.events import EventBuffer, Shape
from tidegate.connectors.postgres.keyed_rows import Key, TableBuffer
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.pgoutput import Table, TableColumn
from tidegate.connectors.postgres.publication import Followed, Names, published
from tidegate.connectors.postgres.replication import Stopped, Stream, parse_lsn, reached_by_stream
from tidegate.connectors.postgres.slot import Record, Since, Slot, SourcePosition
from tidegate.connectors.postgres.tables import OriginTable
from tidegate.errors import Error, make

PIECE = 20_000
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WHOLE = "-c row_security=off"
"""Rows hidden by a policy are an error, since their changes would be sent nevertheless."""


class Snapshot:
    """A read-only transaction that sees the database as of its beginning, or as of an exported snapshot."""

    def __init__(self, server: Server, exported: str | None = None) -> None:
        self._server = server
        self._connection = connected(server, as_text=True, settings=f"{PATIENT} {_WHOLE}", autocommit=True)
        self._connection.execute(_BEGIN)
        if exported is not None:
            try:
                self._connection.execute(f"SET TRANSACTION SNAPSHOT '{exported}'")
            except library().Error as failure:
                self.close()
                raise Unreachable(f"the snapshot at {server.place} is gone", str(failure)) from None

    def close(self) -> None:
        self._connection.close()

    def lsn(self) -> int:
        """The LSN that a stream has reached once it has sent everything committed before this snapshot."""
        self._connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        return reached_by_stream(parse_lsn(self._execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))

    def content(
        self, table: OriginTable, columns: Sequence[str] | None, where: str | None
    ) -> Iterator[tuple[Table, list[tuple[str | None, ...]]]]:
        """Yield all rows of a table in pieces, each with the table's columns; at least one piece."""
        selected = "*" if columns is None else ", ".join(map(quoted, columns))
        query = f"SELECT {selected} FROM {table.alone}" + (f" WHERE {where}" if where else "")
        self._execute(f"DECLARE piece NO SCROLL CURSOR FOR {query}", table)
        while True:
            result = self._execute(f"FETCH {PIECE} FROM piece", table)
            shape = tuple(TableColumn(column.name, column.type_code, True) for column in result.description)
            rows = result.fetchall()
            yield Table(table.oid, table.schema, table.name, table.identity, shape), rows
            if len(rows) < PIECE:
                self._execute("CLOSE piece")
                return

    def rows(self, table: Table, columns: Sequence[str], key: Sequence[str], keys: Sequence[Key]) -> list[Any]:
        """Return the rows of a table with one of the keys."""
        types = dict(
            self._execute(
                "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s",
                None,
                table.oid,
            ).fetchall()
        )
        arrays = ", ".join(f"%s::text[]::{types[name]}[]" for name in key)
        names = [f"k{number}" for number in range(len(key))]
        same = " AND ".join(f"t.{quoted(name)} = k.{other}" for name, other in zip(key, names, strict=True))
        selected = ", ".join(f"t.{quoted(name)}" for name in columns)
        query = (
            f"SELECT {selected} FROM {quoted(table.schema, table.name)} t JOIN unnest({arrays}) k({', '.join(names)})"
        )
        parameters = [list(part) for part in zip(*keys, strict=True)]
        rows: list[Any] = self._execute(f"{query} ON {same}", None, *parameters).fetchall()
        return rows

    def _execute(self, query: str, table: OriginTable | None = None, *parameters: Any) -> Any:
        driver = library()
        try:
            return self._connection.execute(query, parameters or None)
        except driver.errors.InsufficientPrivilege as rejected:
            raise self._cannot_read(rejected.diag.message_primary, table.sql if table is not None else "...") from None
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None

    def _cannot_read(self, reason: str, name: str) -> Error:
        user = quoted(self._server.user)
        fix = f"as its owner: GRANT SELECT ON {name} TO {user}"
        if "row-level security" in reason:
            fix = f"as a superuser: ALTER ROLE {user} BYPASSRLS"
        return make(
            "PIPELINE_FAILED",
            message=f"{self._server.user} may not read {name} at {self._server.place}: {reason}",
            hint=f"{fix}; then start again",
        )


@dataclass(frozen=True)
class InitialLoad:
    """Loads the content of new relations. Creates the slot if it does not exist; for tables that are added later, a
    temporary slot beside it separates their content from their changes."""

    server: Server
    side: Any
    stream: Stream
    names: Names
    record: Record
    slot: Slot | None
    now: Callable[[], int]
    stopped: threading.Event

    def fresh(self, followed: Sequence[Followed], position: SourcePosition | None) -> list[Followed]:
        """Return the relations that were not loaded yet, and those whose table was recreated or rewritten."""
        return [one for one in followed if position is None or _is_new(one, position)]

    def begin(self, fresh: Sequence[Followed], position: SourcePosition | None, batch: ChangeBatch) -> SourcePosition:
        """Add the content of new relations to the batch; return the position to continue from once it is appended."""
        lsn, exported, temporary = self._start_point(fresh, position)
        start = position.lsn if position is not None else lsn if self.slot is None else self.slot.confirmed
        since = dict(position.since) if position is not None else {}
        loaded = [one for one in fresh if one.snapshot]
        if loaded:
            snapshot = Snapshot(self.server, exported)
            try:
                for one in loaded:
                    self._read(one, snapshot, lsn, batch, anew=one.spec.relation in since)
            finally:
                snapshot.close()
        if temporary is not None:
            self.stream.drop_slot(temporary, self.stopped)
        for one in fresh:
            first_lsn = start if position is None and not one.snapshot else lsn
            like = (one.tables[0].oid, one.form) if one.keyed else ()
            since[one.spec.relation] = Since(first_lsn, *like)
        return SourcePosition(start, self.record.facts.life, since, position.time_us if position is not None else 0)

    def _start_point(
        self, fresh: Sequence[Followed], position: SourcePosition | None
    ) -> tuple[int, str | None, str | None]:
        """Return an LSN, the name of the snapshot of everything before it, and the name of the temporary slot."""
        if self.slot is None:
            self.record.keep(slot=True)
            return *self.stream.create_slot(self.names.slot, False, self.stopped), None
        if any(one.snapshot for one in fresh):
            temporary = f"{self.names.slot[:50]}_{secrets.token_hex(4)}"
            return *self.stream.create_slot(temporary, True, self.stopped), temporary
        return parse_lsn(self.side.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]), None, None

    def _read(self, one: Followed, snapshot: Snapshot, lsn: int, batch: ChangeBatch, anew: bool) -> None:
        if one.keyed:
            rows = next(to.rows for to in batch.keyed if to.rows.spec == one.spec)
            rows.begin_snapshot(anew)
            self._read_table(one, snapshot, rows)
        else:
            self._read_events(one, snapshot, next(to.rows for to in batch.bus if to.followed is one), lsn, batch)

    def _read_table(self, one: Followed, snapshot: Snapshot, rows: TableBuffer) -> None:
        table = one.tables[0]
        columns, where = published(self.side, self.names.publication, table)
        declared = {column.name.casefold() for column in one.spec.columns}
        if columns is not None and declared <= {name.casefold() for name in columns}:
            columns = [name for name in columns if name.casefold() in declared]
        for shape, piece in snapshot.content(table, columns, where):
            rows.follow(shape)
            rows.add_snapshot(piece)
            self._check_stopped()

    def _read_events(self, one: Followed, snapshot: Snapshot, rows: EventBuffer, lsn: int, batch: ChangeBatch) -> None:
        number = 0
        for table in one.tables:
            columns, where = published(self.side, self.names.publication, table)
            for table_shape, piece in snapshot.content(table, columns, where):
                shape, now = Shape(table_shape, batch.encoders(table_shape)), self.now()
                for row in piece:
                    number += 1
                    rows.add_snapshot(lsn, number, shape.channel, shape.snapshot(row), now)
                self._check_stopped()

    def _check_stopped(self) -> None:
        if self.stopped.is_set():
            raise Stopped


def _is_new(one: Followed, position: SourcePosition) -> bool:
    since = position.since.get(one.spec.relation)
    if since is None or not one.keyed:
        return since is None
    return since.oid != one.tables[0].oid or (since.form is not None and one.form.rewritten(since.form))
