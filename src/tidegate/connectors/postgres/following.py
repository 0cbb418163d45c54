"""The stream of a slot: changes are appended as they arrive, and confirmed once they are durable."""

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
"""Seconds: longest wait for data, between requests for the server's LSN, and between confirmations while idle."""

_MANY = 1000
_TRIES = 50


class Follower:
    """Reads a stream into `append`, which stores rows and the LSN after them. `keep` stores an LSN that advanced
    without rows; `moment` opens a snapshot; `look` is called periodically."""

    def __init__(
        self,
        stream: Stream,
        batch: ChangeBatch,
        append: Callable[[Any, Any, int], None],
        keep: Callable[[int], None],
        moment: Callable[[], Snapshot],
        look: Callable[[], None],
        stopped: threading.Event,
    ) -> None:
        self._stream, self._batch, self._append = stream, batch, append
        self._keep, self._moment, self._look, self._stopped = keep, moment, look, stopped
        self._lsn = self._confirmed = batch.floor
        self._confirmed_at = self._asked_at = self._looked_at = time.monotonic()

    def run(self, until: int | None) -> None:
        """Read until the stream has reached an LSN (None: until the capture is stopped)."""
        self._process(until, gather=True)
        if not self._batch.open:
            self._flush()
            self._confirm_idle()

    def _process(self, until: int | None, gather: bool) -> None:
        """Process messages up to an LSN; `gather`: append them when the batch is full."""
        batch, receive, count = self._batch, self._stream.receive, 0
        while not self._stopped.is_set():
            if until is not None and self._lsn >= until and not batch.open:
                return
            piece = receive()
            if piece is None:
                self._idle(until, gather)
                continue
            if is_log(piece):
                message = decode(piece, PIECE)
                if message is not None:
                    batch.take_in(message, len(piece))
                if type(message) is Commit:
                    self._lsn = message.end
                    if gather and batch.full:
                        self._flush()
            else:
                self._keepalive(piece)
            count += 1
            if count % _MANY == 0:
                self._duties()

    def _idle(self, until: int | None, gather: bool) -> None:
        batch = self._batch
        if gather and batch.full and not batch.open:
            self._flush()
            return
        if until is not None and time.monotonic() - self._asked_at >= ASK:
            self._stream.confirm(self._confirmed, ask=True)
            self._asked_at = time.monotonic()
        self._duties()
        wait = TICK if until is None else ASK
        self._stream.wait(min(wait, batch.rest) if gather and batch.changes else wait)

    def _keepalive(self, piece: bytes) -> None:
        """Process a keepalive. Between transactions, everything before its LSN has been received."""
        lsn, answer = keepalive(piece)
        if not self._batch.open:
            self._lsn = max(self._lsn, lsn)
        if answer:
            self._confirm_idle()

    def _duties(self) -> None:
        now = time.monotonic()
        if now - self._confirmed_at >= IDLE:
            self._confirm_idle()
        if now - self._looked_at >= IDLE:
            self._looked_at = now
            self._look()

    def _confirm_idle(self) -> None:
        """Confirm what is durable, and later WAL without changes of these tables, so that idle tables retain no WAL."""
        if self._lsn > self._confirmed and not self._batch.changes and not self._batch.open:
            self._keep(self._lsn)
            self._confirmed = self._lsn
        self._confirm()

    def _confirm(self) -> None:
        self._stream.confirm(self._confirmed)
        self._confirmed_at = time.monotonic()

    def _flush(self) -> None:
        batch = self._batch
        if not batch.changes:
            return
        if batch.partial and not self._complete():
            return
        end = batch.end
        rows, rejected = batch.take()
        self._append(rows, rejected, end)
        self._confirmed = max(self._confirmed, end)
        self._confirm()

    def _complete(self) -> bool:
        """Read the values that the server did not send in a snapshot, and process everything committed before it, so
        that appended rows have all their values of one moment. False if the capture was stopped."""
        for _ in range(_TRIES):
            with closing(self._moment()) as snapshot:
                self._process(snapshot.lsn(), gather=False)
                if self._stopped.is_set():
                    return False
                if self._batch.complete(_lookup(snapshot)):
                    return True
        reason = "the user may not see them, or not yet"
        raise Unreachable("rows whose large values were not sent cannot be read", reason)


def _lookup(snapshot: Snapshot) -> Callable[[ToTable, Table], Lookup]:
    def of_table(to: ToTable, table: Table) -> Lookup:
        columns, key = to.rows.columns(table), to.rows.key_columns(table)
        return lambda keys: snapshot.rows(table, columns, key, keys)

    return of_table
