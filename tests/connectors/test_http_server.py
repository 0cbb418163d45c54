"""The HTTP server below all endpoints, over raw sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from starlette.responses import Response, StreamingResponse

from tests.servers.processes import wait_until
from tidegate.core import http_server
from tidegate.core.http_messages import HttpRequest, json_response
from tidegate.core.http_server import LOOPBACK, HttpServer
from tidegate.errors import Error

LIMIT = 1000


async def echo(request: HttpRequest) -> Response:
    body = b"" if request.method == "GET" else await request.read_body(LIMIT)
    return json_response(200, {"route": request.route, "body": body.decode()})


Serve = Callable[..., HttpServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[HttpServer] = []

    def start(respond: http_server.Respond = echo) -> HttpServer:
        servers.append(HttpServer(LOOPBACK, 0, respond))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection((LOOPBACK, server.port), timeout=30)


def raw(server: HttpServer, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends bytes, reads until the server closes the connection, and returns status, headers and body."""
    with connect(server) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


def post_request(*headers: str, body: str = "") -> bytes:
    return "\r\n".join(["POST /hook HTTP/1.1", "Host: x", *headers, "", body]).encode()


NOT_HTTP = "this is not a valid HTTP request"


@pytest.mark.parametrize(
    ("request_bytes", "error"),
    [
        (post_request("Content-Length: 2", "Content-Length: 3", body="abc"), NOT_HTTP),
        (post_request("Content-Length: 2, 3", body="abc"), NOT_HTTP),
        (post_request(f"Content-Length: {'9' * 5000}"), NOT_HTTP),
        (post_request("Content-Length: -1"), NOT_HTTP),
        (post_request("Content-Length: 1_0", body="0123456789"), NOT_HTTP),
        (
            post_request("Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"),
            "a request has a Content-Length or a Transfer-Encoding, not both",
        ),
        (b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n", "the request target is not a valid URL"),
        (b"nonsense\r\n\r\n", NOT_HTTP),
        (b"GET / HTTP/1.1\r\n\r\n", NOT_HTTP),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"b" * 100_000, NOT_HTTP),
    ],
)
def test_requests_that_are_malformed_or_ambiguous(serve: Serve, request_bytes: bytes, error: str) -> None:
    status, headers, body = raw(serve(), request_bytes)
    assert (status, headers["content-type"], headers["connection"]) == (400, "application/json", "close")
    assert json.loads(body) == {"error": error}


def test_a_body_must_have_a_length_within_the_limit(serve: Serve) -> None:
    server = serve()
    status, headers, body = raw(server, post_request("Transfer-Encoding: chunked", body="1\r\na\r\n0\r\n\r\n"))
    assert (status, headers["connection"]) == (411, "close")
    assert json.loads(body) == {"error": "a request needs a Content-Length"}
    status, headers, body = raw(server, post_request("Content-Length: 1001", body="a" * 1001))
    assert (status, headers["connection"]) == (413, "close")
    assert json.loads(body) == {"error": "a request has at most 1000 bytes, this one has 1001"}


def test_what_follows_an_unread_body_is_not_a_request(serve: Serve) -> None:
    hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    _, _, body = raw(serve(), post_request(f"Content-Length: {LIMIT + len(hidden)}", body=hidden))
    assert b"hidden" not in body and body.count(b"\n") == 1


def test_a_connection_serves_many_requests(serve: Serve) -> None:
    first = post_request("Content-Length: 2", "Content-Length: 2", body="ab")
    last = b"GET http://somewhere/a%20b?c=d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    status, headers, rest = raw(serve(), first + last)
    assert (status, headers["server"]) == (200, "tidegate") and "date" in headers
    first_body, _, second = rest.partition(b"\n")
    assert json.loads(first_body) == {"route": "/hook", "body": "ab"}
    assert json.loads(second.partition(b"\r\n\r\n")[2]) == {"route": "/a%20b", "body": ""}


def test_requests_that_never_end_do_not_cost_threads(serve: Serve) -> None:
    server = serve()
    raw(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    before = threading.active_count()
    waiting = [connect(server) for _ in range(200)]
    for connection in waiting:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nab")
    assert raw(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")[0] == 200
    assert threading.active_count() == before
    for connection in waiting:
        connection.close()


@pytest.mark.parametrize("request_start", [b"", b"GET / HTTP/1.1\r\nHo", post_request("Content-Length: 10", body="ab")])
def test_a_silent_client_is_disconnected(serve: Serve, monkeypatch: pytest.MonkeyPatch, request_start: bytes) -> None:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.2)
    with connect(serve()) as connection:
        connection.sendall(request_start)
        assert connection.recv(100) == b""


def test_a_request_that_trickles_in_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.3)
    server = serve()
    for start in (b"GET / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"):
        with connect(server) as connection, pytest.raises(OSError):
            connection.sendall(start)
            while True:
                connection.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(1000):
                        raise ConnectionResetError
                connection.sendall(b"a")


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = HttpServer(LOOPBACK, 0, echo, max_connections=2)
    try:
        first, second = connect(server), connect(server)
        wait_until(lambda: len(server._server.server_state.connections) == 2, "two connections")
        with connect(server) as third, contextlib.suppress(ConnectionResetError):
            assert third.recv(1) == b""
        first.close()
        wait_until(lambda: len(server._server.server_state.connections) == 1, "one connection")
        assert raw(server, post_request("Content-Length: 0", "Connection: close"))[0] == 200
        second.close()
    finally:
        server.close()


def test_a_client_that_does_not_read_is_disconnected(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.2)
    stream_ended = threading.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                await asyncio.sleep(0)
                yield b"x" * 100_000
        finally:
            stream_ended.set()

    async def respond(request: HttpRequest) -> Response:
        return StreamingResponse(pieces())

    with connect(serve(respond)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(stream_ended.is_set, "the end of the stream")


def test_closing_lets_a_response_end_but_not_for_long(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    started, release = threading.Event(), threading.Event()

    async def respond(request: HttpRequest) -> Response:
        started.set()
        await asyncio.to_thread(release.wait, 30)
        return json_response(200, {})

    server = serve(respond)
    with connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert started.wait(30)
        closing = threading.Thread(target=server.close)
        closing.start()
        release.set()
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        closing.join(30)
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_an_address_that_cannot_be_used(serve: Serve) -> None:
    port = serve().port
    with pytest.raises(Error, match=f"port {port} of 127.0.0.1 is in use"):
        HttpServer(LOOPBACK, port, echo)
    with pytest.raises(Error, match=r"nothing can listen on nowhere\.invalid, port 0: "):
        HttpServer("nowhere.invalid", 0, echo)
