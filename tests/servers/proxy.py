"""A TCP proxy on loopback whose connections can be cut or stalled."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Iterator

CHUNK = 65_536
LINGER_NONE = struct.pack("ii", 1, 0)
"""Closing a socket with this option resets its connection."""


class Proxy:
    """Passes every connection on to `target`, a port on loopback."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.2)
        self.port = int(self._listener.getsockname()[1])
        self._lock, self._pairs = threading.Lock(), set[tuple[socket.socket, socket.socket]]()
        self._open, self._closed = threading.Event(), False
        self._open.set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Reset all connections. New ones are accepted."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _reset(pair)

    def stall(self) -> None:
        """Deliver nothing until `flow`, and accept no new connection."""
        self._open.clear()

    def flow(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._closed = True
        self.flow()
        self._thread.join()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            self._open.wait()
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                _reset((client,))
                continue
            server.settimeout(None)
            client.settimeout(None)
            with self._lock:
                self._pairs.add((client, server))
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    self._open.wait()
                    data = key.fileobj.recv(CHUNK)  # type: ignore[union-attr]
                    if not data:
                        return self._end(client, server)
                    key.data.sendall(data)
        self._end(client, server)

    def _end(self, *pair: socket.socket) -> None:
        with self._lock:
            self._pairs.discard((pair[0], pair[1]))
        _reset(pair)


def _reset(pair: tuple[socket.socket, ...]) -> None:
    for end in pair:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextlib.contextmanager
def proxy_of(target: int) -> Iterator[Proxy]:
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
