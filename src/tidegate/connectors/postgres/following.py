"""The stream of a slot, taken in as it comes, and confirmed when it is on record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tidegate.connectors.postgres.batch import ChangeBatch, ToTable
from tidegate.connectors.postgres.client import Unreachable
from tidegate.connectors.postgres.keyed_rows import Lookup
from tidegate.connectors.postgres.pgoutput import Commit, Table, decode
from tidegate.connectors.postgres.replication import PIECE, Stream, is_log, keepalive
from tidegate.connectors.postgres.snapshot import Snapshot

TICK, ASK, IDLE = 0.1, 0.02, 10.0
"""Seconds: how long nothing is waited for, between questions for the server's place, and between idle confirmations."""

_MANY = 1000
_TRIES = 50


class Follower:
    """Runs a stream into `append`, which puts rows and the place behind them on record. `keep` puts a place on record
    that has moved without rows; `look` is called now and then."""

    def __init__(
        self,
        stream: Stream,
        gathering: ChangeBatch,
        append: Callable[[Any, Any, int], None],
        keep: Callable[[int], None],
        moment: Callable[[], Snapshot],
        look: Callable[[], None],
        stopped: threading.Event,
    ) -> None:
        self._stream, self._gathering, self._append = stream, gathering, append
        self._keep, self._moment, self._look, self._stopped = keep, moment, look, stopped
        self._at = self._confirmed = gathering.floor
        self._told = self._asked = self._looked = time.monotonic()

    def run(self, until: int | None) -> None:
        """Until the stream has reached a place (None: until the end of the capture)."""
        self._pump(until, gather=True)
        if not self._gathering.open:
            self._flush()
            self._rest()

    def _pump(self, until: int | None, gather: bool) -> None:
        """Takes in pieces up to a place; `gather`: puts them on record as they become many or old."""
        gathering, receive, count = self._gathering, self._stream.receive, 0
        while not self._stopped.is_set():
            if until is not None and self._at >= until and not gathering.open:
                return
            piece = receive()
            if piece is None:
                self._idle(until, gather)
                continue
            if is_log(piece):
                message = decode(piece, PIECE)
                if message is not None:
                    gathering.take_in(message, len(piece))
                if type(message) is Commit:
                    self._at = message.end
                    if gather and gathering.full:
                        self._flush()
            else:
                self._alive(piece)
            count += 1
            if count % _MANY == 0:
                self._duties()

    def _idle(self, until: int | None, gather: bool) -> None:
        gathering = self._gathering
        if gather and gathering.full and not gathering.open:
            self._flush()
            return
        if until is not None and time.monotonic() - self._asked >= ASK:
            self._stream.confirm(self._confirmed, ask=True)
            self._asked = time.monotonic()
        self._duties()
        patience = TICK if until is None else ASK
        self._stream.wait(min(patience, gathering.rest) if gather and gathering.changes else patience)

    def _alive(self, piece: bytes) -> None:
        """The server says where it is. Between transactions that is a place up to which there is nothing more."""
        place, answer = keepalive(piece)
        if not self._gathering.open:
            self._at = max(self._at, place)
        if answer:
            self._rest()

    def _duties(self) -> None:
        now = time.monotonic()
        if now - self._told >= IDLE:
            self._rest()
        if now - self._looked >= IDLE:
            self._looked = now
            self._look()

    def _rest(self) -> None:
        """Confirms what is on record, and what came since if that was nothing for us: an idle table holds no WAL."""
        if self._at > self._confirmed and not self._gathering.changes and not self._gathering.open:
            self._keep(self._at)
            self._confirmed = self._at
        self._tell()

    def _tell(self) -> None:
        self._stream.confirm(self._confirmed)
        self._told = time.monotonic()

    def _flush(self) -> None:
        gathering = self._gathering
        if not gathering.changes:
            return
        if gathering.partial and not self._complete():
            return
        end = gathering.end
        rows, refused = gathering.take()
        self._append(rows, refused, end)
        self._confirmed = max(self._confirmed, end)
        self._tell()

    def _complete(self) -> bool:
        """Asks the server for values that it did not send, as of now, and takes in what was committed until then: so
        rows are on record with all their values of one moment. False if the capture shall end."""
        for _ in range(_TRIES):
            with closing(self._moment()) as moment:
                self._pump(moment.place(), gather=False)
                if self._stopped.is_set():
                    return False
                if self._gathering.complete(_lookup(moment)):
                    return True
        reason = "the user may not see them, or not yet"
        raise Unreachable("rows whose large values were not sent cannot be read", reason)


def _lookup(moment: Snapshot) -> Callable[[ToTable, Table], Lookup]:
    def of_table(to: ToTable, table: Table) -> Lookup:
        columns, key = to.rows.columns(table), to.rows.key_columns(table)
        return lambda keys: moment.rows(table, columns, key, keys)

    return of_table
