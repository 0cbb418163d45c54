"""A small HTTP server of one's own: a thread per connection, closed as a whole."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tidegate.core.options import Bag
from tidegate.errors import Error, make

LOOPBACK = "127.0.0.1"
POLL_SECONDS = 0.1
IDLE_SECONDS = 60.0
"""A connection on which nothing moves for so long is closed."""

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class Refusal(Exception):
    """An answer that is not what was asked for, and why."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, dict(headers or {})


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tidegate", ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    server: _Server
    _unread = False
    _begun = False

    @property
    def route(self) -> str:
        """The path that is asked for, without its query."""
        return urlsplit(self.path).path

    def parameter(self, name: str) -> str | None:
        """A value of the query, the last one if there are several."""
        found = parse_qs(urlsplit(self.path).query).get(name)
        return found[-1] if found else None

    def only(self, *methods: str) -> None:
        """Refuses other methods."""
        if self.command not in methods:
            raise Refusal(405, f"{self.route} takes {' or '.join(methods)}", {"Allow": ", ".join(methods)})

    def body(self, limit: int) -> bytes:
        """What was sent. After an answer to a request whose body was not read the connection ends."""
        said = self.headers.get("Content-Length")
        if said is None or not said.isdecimal():
            raise Refusal(411, "a request needs a Content-Length")
        if int(said) > limit:
            raise Refusal(413, f"a request has at most {limit} bytes, this one has {said}")
        found = self.rfile.read(int(said))
        self._unread = False
        if len(found) < int(said):
            raise ConnectionResetError("the request ended early")
        return found

    def answer(self, status: int, text: str, kind: str = PLAIN, headers: Mapping[str, str] | None = None) -> None:
        content = text.encode()
        self.begin(status, {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(content)

    def answer_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self.answer(status, json.dumps(value) + "\n", JSON, headers)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of an answer; what follows is written to `wfile`."""
        self._begun = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self._unread or self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: what they say is nobody else's."""

    def _handle(self) -> None:
        sent = self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers
        self._unread, self._begun = sent, False
        try:
            self.server.respond(self)
        except Refusal as refusal:
            self.answer_json(refusal.status, {"error": refusal.reason}, refusal.headers)
        except OSError:
            raise
        except Exception as problem:
            self.close_connection = True
            if not self._begun:
                self.answer_json(500, {"error": f"{type(problem).__name__}: {problem}"})
            raise

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _handle


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], respond: Callable[[Exchange], None]) -> None:
        self.respond = respond
        self.open: set[socket.socket] = set()
        self.guard = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Exchange)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.guard:
            self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.guard:
            self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error; anything else is told in a line."""
        problem = sys.exception()
        if not isinstance(problem, OSError):
            said = f"{type(problem).__name__}: {problem}".split("\n", 1)[0]
            print(f"a request to port {self.server_address[1]} failed: {said}", file=sys.stderr)


class HttpServer:
    """Answers requests until it is closed. Port 0 is any free one."""

    def __init__(self, host: str, port: int, respond: Callable[[Exchange], None]) -> None:
        try:
            self._server = _Server((host, port), respond)
        except OSError as failure:
            raise _cannot_listen(host, port, failure) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._serve, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.serve_forever(POLL_SECONDS)

    def close(self) -> None:
        """Ends the server and the connections that are open."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._server.guard:
            for connection in self._server.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _cannot_listen(host: str, port: int, failure: OSError) -> Error:
    if failure.errno == errno.EADDRINUSE:
        message, hint = f"port {port} of {host} is in use", "choose another port, or stop who listens on it"
    elif failure.errno == errno.EACCES:
        message, hint = f"port {port} of {host} is not allowed for this user", "choose a port from 1024"
    else:
        message, hint = f"nothing can listen on {host}, port {port}: {failure.strerror or failure}", "check the host"
    return make("INVALID_OPTION", message=message, hint=hint)


def port_of(bag: Bag, default: int) -> int:
    """The option `port`."""
    return bag.take("port", _port, "a port from 0 to 65535 (0: any free one)", default) or 0


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError(text)
    return number


def path_of(bag: Bag, default: str) -> str:
    """The option `path`."""
    return bag.take("path", _path, "a path such as '/events'", default) or default


def _path(text: str) -> str:
    if not text.startswith("/") or "?" in text or "#" in text or text == "/health":
        raise ValueError(text)
    return text


def host_of(bag: Bag, guarded: bool, guard: str) -> str:
    """The option `host`. Others than this machine's own users get in only with a secret, whose option is `guard`."""
    at = bag.span_of("host")
    host = bag.text("host", LOOPBACK) or LOOPBACK
    if not guarded and not is_loopback(host):
        raise make(
            "INVALID_OPTION",
            message=f"on host {host} everybody in the network could connect",
            hint=f"add {guard} = '...', or leave out host to listen on {LOOPBACK} only",
            span=at,
        )
    return host


def is_loopback(host: str) -> bool:
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
