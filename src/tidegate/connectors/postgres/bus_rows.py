"""Changes on their way to the bus."""

from __future__ import annotations

import pyarrow as pa

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Rows
from tidegate.connectors.postgres.pgoutput import Begin
from tidegate.formats.events import Event, rfc3339, rows_of

CHUNK = 20_000


class Stamp:
    """What events of one transaction have in common. `now` is the processing time at which it came."""

    def __init__(self, begin: Begin, now: int) -> None:
        self.commit, self.now, self.seq = begin.commit, now, 0
        self._head = f'{{"xid":{begin.xid},"commit_time":"{rfc3339(begin.time_us)}","seq":'

    @property
    def transaction(self) -> str:
        return f"{self._head}{self.seq}}}"


class BusRows:
    """The events of one source, those of many in a compact form. Changes that were committed before `since` are not
    among them."""

    def __init__(self, relation: str) -> None:
        self.relation = relation
        self.since = 0
        self._events: list[Event] = []
        self._chunks: list[pa.Table] = []

    def add(self, stamp: Stamp, channel: str, operation: str, payload: str) -> None:
        identity = f"{stamp.commit:X}-{stamp.seq}"
        self._events.append(Event(identity, channel, operation, payload, self.relation, stamp.now, stamp.transaction))
        if len(self._events) >= CHUNK:
            self._pack()

    def add_snapshot(self, lsn: int, number: int, channel: str, payload: str, now: int) -> None:
        """A row that was there at a place in the log."""
        self._events.append(Event(f"{lsn:X}-s{number}", channel, "INSERT", payload, self.relation, now))
        if len(self._events) >= CHUNK:
            self._pack()

    def take(self) -> list[Rows]:
        """All that came since the last time."""
        self._pack()
        chunks, self._chunks = self._chunks, []
        return [(BUS, pa.concat_tables(chunks), 1)] if chunks else []

    def clear(self) -> None:
        self._events, self._chunks = [], []

    def _pack(self) -> None:
        if self._events:
            self._chunks.append(rows_of(self._events))
            self._events = []
