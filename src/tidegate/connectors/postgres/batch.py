"""A batch: changes of whole transactions that are appended together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidegate.connectors.contract import RejectedRow, Rows
from tidegate.connectors.postgres.client import Unreachable
from tidegate.connectors.postgres.events import Encode, EventBuffer, Shape, Stamp
from tidegate.connectors.postgres.keyed_rows import Lookup, TableBuffer
from tidegate.connectors.postgres.pgoutput import Begin, Change, Commit, Message, Table, Truncate
from tidegate.connectors.postgres.publication import Followed
from tidegate.connectors.postgres.tables import OriginTable

SECONDS, CHANGES, BYTES = 0.05, 20_000, 8 << 20


@dataclass
class ToBus:
    """A source of events, and the tables that it follows."""

    rows: EventBuffer
    followed: Followed

    def accepts(self, table: Table) -> bool:
        if not self.followed.following.tables:
            return True
        tables = self.followed.tables
        return any(table.oid == one.oid or table[1:3] == (one.schema, one.name) for one in tables)


@dataclass
class ToTable:
    """A relation, and the table that it copies."""

    rows: TableBuffer
    table: OriginTable

    def accepts(self, table: Table) -> bool:
        if table.oid != self.table.oid and table[1:3] == (self.table.schema, self.table.name):
            raise Unreachable(f"table {self.table.sql} was made anew", "it is read again")
        return table.oid == self.table.oid


@dataclass
class _Route:
    """The receivers of a table's changes."""

    shape: Shape
    bus: list[ToBus]
    keyed: list[ToTable]


@dataclass
class ChangeBatch:
    """Collects changes. Transactions committed before `floor` were appended already. `now` is the processing clock;
    `encoders` returns how a table's values are written."""

    bus: Sequence[ToBus]
    keyed: Sequence[ToTable]
    floor: int
    now: Callable[[], int]
    encoders: Callable[[Table], Sequence[Encode]]
    changes: int = 0
    bytes: int = 0
    end: int = 0
    _routes: dict[int, _Route] = field(default_factory=dict)
    _stamp: Stamp | None = None
    _begun: float = 0.0

    @property
    def open(self) -> bool:
        """True inside of a transaction."""
        return self._stamp is not None

    @property
    def full(self) -> bool:
        return self.changes > 0 and (self.changes >= CHANGES or self.bytes >= BYTES or self.rest <= 0)

    @property
    def rest(self) -> float:
        """Seconds for which the batch may still wait for more."""
        return SECONDS - (time.monotonic() - self._begun) if self.changes else SECONDS

    @property
    def partial(self) -> bool:
        return any(to.rows.partial for to in self.keyed)

    def take_in(self, message: Message, size: int) -> None:
        """Add the next message of the stream."""
        match message:
            case Change():
                self._change(message, size)
            case Begin():
                self._stamp = Stamp(message, self.now())
            case Commit():
                self._stamp, self.end = None, message.end
            case Table():
                self._routes[message.oid] = self._route(message)
            case Truncate():
                for oid in message.oids:
                    self._truncate(oid)

    def complete(self, lookup: Callable[[ToTable, Table], Lookup]) -> bool:
        """Fill in values that were not sent; False if some rows were not found."""
        return all(
            to.rows.complete(lookup(to, self._routes[to.table.oid].shape.table)) for to in self.keyed if to.rows.partial
        )

    def take(self) -> tuple[list[Rows], list[RejectedRow]]:
        """Return everything collected, and begin a new batch."""
        rows, rejected = [part for to in self.bus for part in to.rows.take()], list[RejectedRow]()
        for to in self.keyed:
            parts, errors = to.rows.take()
            rows += parts
            rejected += errors
        self.changes = self.bytes = 0
        return rows, rejected

    def _route(self, table: Table) -> _Route:
        keyed = [to for to in self.keyed if to.accepts(table)]
        for to in keyed:
            to.rows.follow(table)
        return _Route(Shape(table, self.encoders(table)), [to for to in self.bus if to.accepts(table)], keyed)

    def _change(self, change: Change, size: int) -> None:
        route, stamp, bus, keyed = self._receivers(change.oid)
        if not bus and not keyed:
            return
        self._count(stamp, size)
        if bus:
            payload = route.shape.payload(change)
            for events in bus:
                events.add(stamp, route.shape.channel, change.op, payload)
        for rows in keyed:
            rows.add(change)

    def _truncate(self, oid: int) -> None:
        route, stamp, bus, keyed = self._receivers(oid)
        if not bus and not keyed:
            return
        self._count(stamp, 0)
        for events in bus:
            events.add(stamp, route.shape.channel, "TRUNCATE", route.shape.truncated())
        for rows in keyed:
            rows.truncate()

    def _receivers(self, oid: int) -> tuple[_Route, Stamp, list[EventBuffer], list[TableBuffer]]:
        """Return the receivers of a change of a table in the current transaction."""
        route, stamp = self._routes[oid], self._stamp
        assert stamp is not None
        commit = stamp.commit
        if commit < self.floor:
            return route, stamp, [], []
        bus = [to.rows for to in route.bus if commit >= to.rows.since]
        return route, stamp, bus, [to.rows for to in route.keyed if commit >= to.rows.since]

    def _count(self, stamp: Stamp, size: int) -> None:
        if not self.changes:
            self._begun = time.monotonic()
        stamp.seq += 1
        self.changes += 1
        self.bytes += size
