"""The content of tables that are new to a capture, as of the position from which their changes count."""

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
from tidegate.connectors.postgres.position import Record, Since, SourcePosition
from tidegate.connectors.postgres.publication import Followed, Names, published
from tidegate.connectors.postgres.replication import Stopped, Stream, parse_lsn, reached_by_stream
from tidegate.connectors.postgres.slot import Slot
from tidegate.connectors.postgres.tables import OriginTable
from tidegate.errors import Error, make

PIECE = 20_000
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WHOLE = "-c row_security=off"
"""Rows that a policy hides are an error, not left out: their changes would come all the same."""


class Snapshot:
    """A transaction that only reads, and sees the database as of its beginning, or as of an exported snapshot."""

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

    def place(self) -> int:
        """A place that a stream has reached once it has sent all that was committed before this moment."""
        self._connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        return reached_by_stream(parse_lsn(self._asked("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]))

    def content(
        self, table: OriginTable, columns: Sequence[str] | None, where: str | None
    ) -> Iterator[tuple[Table, list[tuple[str | None, ...]]]]:
        """All rows of a table, in pieces, each with what the table is like; at least one piece."""
        chosen = "*" if columns is None else ", ".join(map(quoted, columns))
        query = f"SELECT {chosen} FROM {table.alone}" + (f" WHERE {where}" if where else "")
        self._asked(f"DECLARE piece NO SCROLL CURSOR FOR {query}", table)
        while True:
            found = self._asked(f"FETCH {PIECE} FROM piece", table)
            shape = tuple(TableColumn(column.name, column.type_code, True) for column in found.description)
            rows = found.fetchall()
            yield Table(table.oid, table.schema, table.name, table.identity, shape), rows
            if len(rows) < PIECE:
                self._asked("CLOSE piece")
                return

    def rows(self, table: Table, columns: Sequence[str], key: Sequence[str], keys: Sequence[Key]) -> list[Any]:
        """The rows of a table that have one of some keys."""
        types = dict(
            self._asked(
                "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s",
                None,
                table.oid,
            ).fetchall()
        )
        listed = ", ".join(f"%s::text[]::{types[name]}[]" for name in key)
        names = [f"k{number}" for number in range(len(key))]
        same = " AND ".join(f"t.{quoted(name)} = k.{other}" for name, other in zip(key, names, strict=True))
        chosen = ", ".join(f"t.{quoted(name)}" for name in columns)
        query = f"SELECT {chosen} FROM {quoted(table.schema, table.name)} t JOIN unnest({listed}) k({', '.join(names)})"
        given = [list(part) for part in zip(*keys, strict=True)]
        found: list[Any] = self._asked(f"{query} ON {same}", None, *given).fetchall()
        return found

    def _asked(self, query: str, table: OriginTable | None = None, *given: Any) -> Any:
        driver = library()
        try:
            return self._connection.execute(query, given or None)
        except driver.errors.InsufficientPrivilege as refused:
            raise self._unread(refused.diag.message_primary, table.sql if table is not None else "...") from None
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None

    def _unread(self, said: str, name: str) -> Error:
        user = quoted(self._server.user)
        mended = f"as its owner: GRANT SELECT ON {name} TO {user}"
        if "row-level security" in said:
            mended = f"as a superuser: ALTER ROLE {user} BYPASSRLS"
        return make(
            "PIPELINE_FAILED",
            message=f"{self._server.user} may not read {name} at {self._server.place}: {said}",
            hint=f"{mended}; then start again",
        )


@dataclass(frozen=True)
class InitialLoad:
    """What is needed to begin. The main slot is made here if it is not there; for tables that come later there is a
    temporary one beside it, which says what their content and their changes are."""

    server: Server
    side: Any
    stream: Stream
    names: Names
    record: Record
    slot: Slot | None
    now: Callable[[], int]
    stopped: threading.Event

    def fresh(self, followed: Sequence[Followed], place: SourcePosition | None) -> list[Followed]:
        """The relations that have no beginning yet, and those whose table was made or written anew."""
        return [one for one in followed if place is None or _is_new(one, place)]

    def begin(self, fresh: Sequence[Followed], place: SourcePosition | None, gathering: ChangeBatch) -> SourcePosition:
        """Gathers the content of the new relations; the place from which to go on once that is on record."""
        lsn, exported, temporary = self._marked(fresh, place)
        start = place.lsn if place is not None else lsn if self.slot is None else self.slot.confirmed
        since = dict(place.since) if place is not None else {}
        wanted = [one for one in fresh if one.snapshot]
        if wanted:
            moment = Snapshot(self.server, exported)
            try:
                for one in wanted:
                    self._read(one, moment, lsn, gathering, anew=one.spec.relation in since)
            finally:
                moment.close()
        if temporary is not None:
            self.stream.drop_slot(temporary, self.stopped)
        for one in fresh:
            begins = start if place is None and not one.snapshot else lsn
            like = (one.tables[0].oid, one.form) if one.keyed else ()
            since[one.spec.relation] = Since(begins, *like)
        return SourcePosition(start, self.record.facts.life, since, place.time_us if place is not None else 0)

    def _marked(self, fresh: Sequence[Followed], place: SourcePosition | None) -> tuple[int, str | None, str | None]:
        """A place, the name of the snapshot that has all before it, and the name of the temporary slot."""
        if self.slot is None:
            self.record.keep(slot=True)
            return *self.stream.create_slot(self.names.slot, False, self.stopped), None
        if any(one.snapshot for one in fresh):
            temporary = f"{self.names.slot[:50]}_{secrets.token_hex(4)}"
            return *self.stream.create_slot(temporary, True, self.stopped), temporary
        return parse_lsn(self.side.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]), None, None

    def _read(self, one: Followed, moment: Snapshot, lsn: int, gathering: ChangeBatch, anew: bool) -> None:
        if one.keyed:
            rows = next(to.rows for to in gathering.keyed if to.rows.spec == one.spec)
            rows.begin_snapshot(anew)
            self._read_table(one, moment, rows)
        else:
            self._read_events(one, moment, next(to.rows for to in gathering.bus if to.followed is one), lsn, gathering)

    def _read_table(self, one: Followed, moment: Snapshot, rows: TableBuffer) -> None:
        table = one.tables[0]
        columns, where = published(self.side, self.names.publication, table)
        declared = {column.name.casefold() for column in one.spec.columns}
        if columns is not None and declared <= {name.casefold() for name in columns}:
            columns = [name for name in columns if name.casefold() in declared]
        for shape, piece in moment.content(table, columns, where):
            rows.follow(shape)
            rows.add_snapshot(piece)
            self._go_on()

    def _read_events(
        self, one: Followed, moment: Snapshot, rows: EventBuffer, lsn: int, gathering: ChangeBatch
    ) -> None:
        number = 0
        for table in one.tables:
            columns, where = published(self.side, self.names.publication, table)
            for found, piece in moment.content(table, columns, where):
                shape, now = Shape(found, gathering.encoders(found)), self.now()
                for row in piece:
                    number += 1
                    rows.add_snapshot(lsn, number, shape.channel, shape.snapshot(row), now)
                self._go_on()

    def _go_on(self) -> None:
        if self.stopped.is_set():
            raise Stopped


def _is_new(one: Followed, place: SourcePosition) -> bool:
    known = place.since.get(one.spec.relation)
    if known is None or not one.keyed:
        return known is None
    return known.oid != one.tables[0].oid or (known.form is not None and one.form.rewritten(known.form))
