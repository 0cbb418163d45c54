"""One server for all test processes of a run: the first one that needs it starts it, the last one stops it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.servers.fetch import locked
from tests.servers.processes import end, running


class Server(Protocol):
    @property
    def pid(self) -> int | None: ...

    def start(self) -> None: ...


@contextlib.contextmanager
def shared(folder: Path, make: Callable[[], Server], address: Callable[[Any], str]) -> Iterator[str]:
    """The address of the server whose files are in `folder`: the same for all processes that use it at once."""
    state = folder / "shared.json"
    with locked(folder / "lock"):
        users, pid, where = _read(state)
        if pid is None or not running(pid):
            server = make()
            server.start()
            users, pid, where = [], server.pid, address(server)
        _write(state, [*users, os.getpid()], pid, where)
    try:
        yield where
    finally:
        with locked(folder / "lock"):
            users, pid, where = _read(state)
            others = [user for user in users if user != os.getpid() and running(user)]
            if pid is not None and not others:
                end(pid)
                pid = None
            _write(state, others, pid, where)


def _read(state: Path) -> tuple[list[int], int | None, str]:
    if not state.exists():
        return [], None, ""
    content = json.loads(state.read_text())
    return content["users"], content["pid"], content["address"]


def _write(state: Path, users: list[int], pid: int | None, address: str) -> None:
    state.write_text(json.dumps({"users": users, "pid": pid, "address": address}))
