"""What a page in a browser on this machine can do with our ports: nothing, without a token or a permission."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tidegate.core.http_server import LOOPBACK
from tidegate.server.metrics import MetricsServer


@pytest.fixture
def port() -> Iterator[int]:
    server = MetricsServer(LOOPBACK, 0, lambda: "tidegate_up 1\n")
    yield server.port
    server.close()


def raw(port: int, *lines: str) -> tuple[int, bytes]:
    """The status and the body of the response to these lines."""
    with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "127.0.0.2", "app.localhost"])
def test_this_machine_is_named_as_such(port: int, host: str) -> None:
    assert raw(port, "GET /metrics HTTP/1.1", f"Host: {host}:{port}")[0] == 200


FOREIGN = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "x", ""]


@pytest.mark.parametrize("host", FOREIGN)
def test_another_name_for_this_machine_is_refused(port: int, host: str) -> None:
    """A name that its owner points at this machine makes a page of that name one of the same origin."""
    status, body = raw(port, "GET /metrics HTTP/1.1", f"Host: {host}:{port}" if host else "Host:")
    assert status == 421
    assert "Host" in json.loads(body)["error"]


def test_the_target_may_not_name_another_host(port: int) -> None:
    assert raw(port, f"GET http://evil.example:{port}/metrics HTTP/1.1", f"Host: localhost:{port}")[0] == 421


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://localhost:8080", ""])
def test_metrics_are_not_for_pages(port: int, origin: str) -> None:
    host = f"Host: localhost:{port}"
    assert raw(port, "GET /metrics HTTP/1.1", host) == (200, b"tidegate_up 1\n")
    assert raw(port, "GET /metrics HTTP/1.1", host, f"Origin: {origin}")[0] == 403
    assert raw(port, "GET /metrics HTTP/1.1", host, "Sec-Fetch-Site: cross-site")[0] == 403
    assert raw(port, "GET /metrics HTTP/1.1", host, "Sec-Fetch-Site: same-site")[0] == 403
    assert raw(port, "GET /metrics HTTP/1.1", host, "Sec-Fetch-Site: none")[0] == 200
