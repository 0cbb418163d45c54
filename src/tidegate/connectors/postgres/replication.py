"""The streaming replication protocol: a connection that follows a replication slot."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from collections.abc import Sequence
from struct import Struct
from typing import Any

from tidegate.connectors.postgres.client import PATIENT, Unreachable, broken, connected, library
from tidegate.connectors.postgres.options import Server
from tidegate.connectors.postgres.pgoutput import EPOCH_US

PAGE = 8192
_LONGEST_PAGE_HEADER = 40


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def reached_by_stream(insert: int) -> int:
    """The LSN that a stream reaches once it has sent everything before an insert position. At the beginning of a page
    that position is already behind the page's header, which a stream passes only with the next record."""
    within = insert % PAGE
    return insert - within if within <= _LONGEST_PAGE_HEADER else insert


_log = logging.getLogger(__name__)

PIECE = 25
"""Where the plugin's message begins in a WAL data message."""

_TICK, _FAREWELL, _NOTE = 0.1, 1.0, 5.0
_OTHERS = (
    "waits for transactions that are open at the server to end; they are in SELECT pid, state, xact_start, query FROM"
    " pg_stat_activity WHERE backend_xid IS NOT NULL"
)
_ALIVE: dict[str, Any] = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
_POSITION = Struct(">xq").unpack_from
_STATUS = Struct(">cqqqqB").pack
_LOG, _KEEPALIVE = ord("w"), ord("k")
_GONE = ("57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006")


class Stopped(Exception):
    """The capture was stopped while a command was running."""


class ReplicationError(Exception):
    """The server rejected a command; `state` is the SQLSTATE."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.message, self.state = message, state


class Stream:
    """A replication connection: for commands first, after `start` for the changes of a slot."""

    def __init__(self, server: Server, application: str) -> None:
        self._server = server
        self._connection = connected(
            server,
            as_text=True,
            settings=PATIENT,
            replication="database",
            application_name=application,
            autocommit=True,
            **_ALIVE,
        )
        self._libpq = self._connection.pgconn
        self._pq = library().pq
        self._streaming = False

    def close(self) -> None:
        """End the stream properly if the server responds in time, so that the slot is released at once."""
        with contextlib.suppress(library().Error, OSError, ReplicationError):
            if self._streaming:
                self._end(time.monotonic() + _FAREWELL)
        self._connection.close()

    def create_slot(self, name: str, temporary: bool, stopped: threading.Event) -> tuple[int, str]:
        """Create a slot and return its LSN and the name of an exported snapshot. Transactions committed before the LSN
        are in the snapshot, which exists while this connection runs no other command; later ones are in the slot. Waits
        for open transactions."""
        short = " TEMPORARY" if temporary else ""
        command = f'CREATE_REPLICATION_SLOT "{name}"{short} LOGICAL pgoutput EXPORT_SNAPSHOT'
        result = self._run(command, stopped, f"slot {name} at {self._server.place} {_OTHERS}")
        return parse_lsn(result.get_value(0, 1).decode()), result.get_value(0, 2).decode()

    def drop_slot(self, name: str, stopped: threading.Event) -> None:
        self._run(f'DROP_REPLICATION_SLOT "{name}"', stopped)

    def start(self, slot: str, publications: Sequence[str], lsn: int, stopped: threading.Event) -> None:
        names = ",".join('"' + name.replace('"', '""') + '"' for name in publications).replace("'", "''")
        options = f"proto_version '1', publication_names '{names}'"
        self._run(f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} ({options})', stopped)

    def receive(self) -> bytes | None:
        """Return the next message, None if there is none now."""
        try:
            size, data = self._libpq.get_copy_data(1)
        except library().Error as failure:
            raise self._end_error(str(failure)) from None
        if size > 0:
            return bytes(data)
        if size == 0:
            return None
        raise self._end_error("the server ended the stream")

    def wait(self, seconds: float) -> None:
        """Wait until data arrives, or for `seconds`."""
        select.select([self._libpq.socket], [], [], max(seconds, 0.0))
        self._consume()

    def confirm(self, lsn: int, ask: bool = False) -> None:
        """Confirm that everything before an LSN is durable. `ask`: request the server's own LSN."""
        now = time.time_ns() // 1000 - EPOCH_US
        try:
            self._libpq.put_copy_data(_STATUS(b"r", lsn, lsn, lsn, now, ask))
            while self._libpq.flush():
                select.select([self._libpq.socket], [self._libpq.socket], [], _TICK)
                self._consume()
        except library().Error as failure:
            raise self._end_error(str(failure)) from None

    def _run(self, command: str, stopped: threading.Event, note: str = "") -> Any:
        """Run a command; it is cancelled when the capture is stopped. `note` is logged if it takes long."""
        self._libpq.send_query(command.encode())
        due = time.monotonic() + _NOTE
        while self._libpq.is_busy():
            if note and time.monotonic() > due:
                _log.warning("%s", note)
                note = ""
            if stopped.is_set():
                self._libpq.get_cancel().cancel()
                raise Stopped
            self.wait(_TICK)
        result = self._libpq.get_result()
        if result.status == self._pq.ExecStatus.COPY_BOTH:
            self._libpq.nonblocking = 1
            self._streaming = True
            return result
        while self._libpq.get_result() is not None:
            pass
        if result.status not in (self._pq.ExecStatus.TUPLES_OK, self._pq.ExecStatus.COMMAND_OK):
            raise self._failed(result)
        return result

    def _end(self, deadline: float) -> None:
        self._libpq.put_copy_end()
        self._libpq.flush()
        while time.monotonic() < deadline:
            size, _ = self._libpq.get_copy_data(1)
            if size < 0 and not self._libpq.is_busy():
                return
            if size <= 0:
                self.wait(_TICK)

    def _consume(self) -> None:
        try:
            self._libpq.consume_input()
        except library().Error as failure:
            raise self._end_error(str(failure)) from None

    def _end_error(self, text: str) -> Exception:
        """The error for a stream that ended, preferably the server's own."""
        if self._libpq.status == self._pq.ConnStatus.OK:
            result = self._libpq.get_result()
            if result is not None and result.status == self._pq.ExecStatus.FATAL_ERROR:
                return self._failed(result)
        return self._broken(text)

    def _failed(self, result: Any) -> Exception:
        fields = self._pq.DiagnosticField
        state = (result.error_field(fields.SQLSTATE) or b"").decode()
        message = (result.error_field(fields.MESSAGE_PRIMARY) or result.error_message).decode("utf8", "replace")
        if not state or state in _GONE:
            return self._broken(message)
        return ReplicationError(message, state)

    def _broken(self, message: str) -> Unreachable:
        return broken(self._server, message)


def is_log(piece: bytes) -> bool:
    """True for WAL data, which contains a message of the plugin."""
    return piece[0] == _LOG


def keepalive(piece: bytes) -> tuple[int, bool]:
    """Parse a keepalive: the LSN up to which the server has sent everything, and if it requests an answer."""
    assert piece[0] == _KEEPALIVE
    return _POSITION(piece)[0], bool(piece[17])
