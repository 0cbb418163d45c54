"""Where a capture begins: the content of tables that are new to it, as of the place from which their changes count."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.postgres.bus_rows import BusRows
from tidegate.connectors.postgres.gathering import Gathering
from tidegate.connectors.postgres.keyed_rows import KeyedRows
from tidegate.connectors.postgres.lsn import parse_lsn
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.payloads import Shape
from tidegate.connectors.postgres.position import Place, Since
from tidegate.connectors.postgres.preparing import Followed, Names
from tidegate.connectors.postgres.publication import published
from tidegate.connectors.postgres.record import Record
from tidegate.connectors.postgres.replication import Stopped, Stream
from tidegate.connectors.postgres.slot import Slot
from tidegate.connectors.postgres.snapshot import Moment


@dataclass(frozen=True)
class Beginning:
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

    def fresh(self, followed: Sequence[Followed], place: Place | None) -> list[Followed]:
        """The relations that have no beginning yet, and those whose table was made or written anew."""
        return [one for one in followed if place is None or _is_new(one, place)]

    def begin(self, fresh: Sequence[Followed], place: Place | None, gathering: Gathering) -> Place:
        """Gathers the content of the new relations; the place from which to go on once that is on record."""
        lsn, exported, temporary = self._marked(fresh, place)
        start = place.lsn if place is not None else lsn if self.slot is None else self.slot.confirmed
        since = dict(place.since) if place is not None else {}
        wanted = [one for one in fresh if one.snapshot]
        if wanted:
            moment = Moment(self.server, exported)
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
        return Place(start, self.record.facts.life, since, place.time_us if place is not None else 0)

    def _marked(self, fresh: Sequence[Followed], place: Place | None) -> tuple[int, str | None, str | None]:
        """A place, the name of the snapshot that has all before it, and the name of the temporary slot."""
        if self.slot is None:
            self.record.keep(slot=True)
            return *self.stream.create_slot(self.names.slot, False, self.stopped), None
        if any(one.snapshot for one in fresh):
            temporary = f"{self.names.slot[:50]}_{secrets.token_hex(4)}"
            return *self.stream.create_slot(temporary, True, self.stopped), temporary
        return parse_lsn(self.side.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]), None, None

    def _read(self, one: Followed, moment: Moment, lsn: int, gathering: Gathering, anew: bool) -> None:
        if one.keyed:
            rows = next(to.rows for to in gathering.keyed if to.rows.spec == one.spec)
            rows.begin_snapshot(anew)
            self._read_table(one, moment, rows)
        else:
            self._read_events(one, moment, next(to.rows for to in gathering.bus if to.followed is one), lsn, gathering)

    def _read_table(self, one: Followed, moment: Moment, rows: KeyedRows) -> None:
        table = one.tables[0]
        columns, where = published(self.side, self.names.publication, table)
        declared = {column.name.casefold() for column in one.spec.columns}
        if columns is not None and declared <= {name.casefold() for name in columns}:
            columns = [name for name in columns if name.casefold() in declared]
        for shape, piece in moment.content(table, columns, where):
            rows.follow(shape)
            rows.add_snapshot(piece)
            self._go_on()

    def _read_events(self, one: Followed, moment: Moment, rows: BusRows, lsn: int, gathering: Gathering) -> None:
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


def _is_new(one: Followed, place: Place) -> bool:
    known = place.since.get(one.spec.relation)
    if known is None or not one.keyed:
        return known is None
    return known.oid != one.tables[0].oid or (known.form is not None and one.form.rewritten(known.form))
