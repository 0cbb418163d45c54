"""An HTTP server for one address: uvicorn in its own thread."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import threading
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidegate.core.http_messages import Respond, application
from tidegate.errors import Error, make

LOOPBACK = "127.0.0.1"
IDLE_SECONDS = 60
"""A connection on which nothing moves for this long is closed."""

HEAD_SECONDS, BODY_SECONDS = 10, 300
"""The longest times in which the head and the body of a request must arrive, however little silence there is."""

MAX_CONNECTIONS = 256
"""More connections at a time are refused."""

GRACE_SECONDS = 1.0
"""Responses under way when the server closes have this long to end."""

BACKLOG = 128

_log = logging.getLogger(__name__)
_connection_log = logging.getLogger(f"{__name__}.connections")
_connection_log.setLevel(logging.ERROR)


class HttpServer:
    """Serves one address until it is closed. Port 0 means any free port."""

    def __init__(self, host: str, port: int, respond: Respond, max_connections: int = MAX_CONNECTIONS) -> None:
        listener = _bind(host, port)
        self.host, self.port = host, int(listener.getsockname()[1])
        self._server = _Server(_config(application(respond, self.port), max_connections))
        self._thread = threading.Thread(target=self._run, args=(listener,), name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, let responses under way end for a moment, and close the connections."""
        self._server.stop()
        self._thread.join()

    def _run(self, listener: socket.socket) -> None:
        try:
            asyncio.run(self._server.serve([listener]))
        except Exception:
            _log.exception("the HTTP server of port %d stopped", self.port)
        finally:
            listener.close()
            self._server.ready.set()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it, a response takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as failure:
        listener.close()
        raise _cannot_listen(host, port, failure) from None
    return listener


def _cannot_listen(host: str, port: int, failure: OSError) -> Error:
    if failure.errno == errno.EADDRINUSE:
        message, hint = f"port {port} of {host} is in use", "choose another port, or stop who listens on it"
    elif failure.errno == errno.EACCES:
        message, hint = f"port {port} of {host} is not allowed for this user", "choose a port from 1024"
    else:
        message, hint = f"nothing can listen on {host}, port {port}: {failure.strerror or failure}", "check the host"
    return make("INVALID_OPTION", message=message, hint=hint)


def _config(app: Any, max_connections: int) -> uvicorn.Config:
    """Leave logging alone: the process may run another uvicorn server."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        http=type("_LimitedConnection", (_Connection,), {"max_connections": max_connections}),
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        date_header=False,
        headers=[("server", "tidegate")],
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
    )


class _Server(uvicorn.Server):
    """Waits for an event where uvicorn polls ten times a second, so an idle server uses no CPU."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ask the server to stop, from any thread."""
        self.ready.wait()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        self.server_state.default_headers = self.config.encoded_headers
        self._loop = asyncio.get_running_loop()
        self.ready.set()
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)


class _Connection(H11Protocol):
    """Closes a connection whose client neither sends what is due nor reads what it was sent.

    uvicorn itself only limits the time between two requests.
    """

    max_connections = MAX_CONNECTIONS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger, self.access_log = _connection_log, False
        self._stalled: asyncio.TimerHandle | None = None
        self._arriving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            transport.abort()
            return
        self._limit_silence()
        self._limit_arrival(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self._arriving is None and (before is None or before.response_complete):
            self._limit_arrival(HEAD_SECONDS)
        super().data_received(data)
        if self.cycle is not before and self.cycle is not None:
            self._limit_arrival(BODY_SECONDS)
        if self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete:
            self._stop_arrival_timer()
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            self._limit_silence()

    def _limit_arrival(self, seconds: float) -> None:
        self._stop_arrival_timer()
        self._arriving = self.loop.call_later(seconds, self.transport.close)

    def _stop_arrival_timer(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _limit_silence(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall_timer()

    def shutdown(self) -> None:
        """Prepare to close; a client that does not read what it was sent is not waited for."""
        if self._stalled is not None:
            self.transport.abort()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_stall_timer()
        self._stop_arrival_timer()
        self._unset_keepalive_if_required()

    def _stop_stall_timer(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in JSON like every other error."""
        content = json.dumps({"error": "this is not a valid HTTP request"}).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content))), ("Connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = self.conn.send(h11.Response(status_code=400, headers=headers, reason=b"Bad Request"))
            self.transport.write((head or b"") + content)
        self.transport.close()
