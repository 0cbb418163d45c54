"""What PostgreSQL says when a sink writes, as errors for the user, or as ones after which the sink is tried again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tidegate.connectors.postgres.client import Away, broken, connected, library
from tidegate.connectors.postgres.options import Server
from tidegate.errors import Error, make

LOST_SECONDS = 30
_PASSING = ("08", "25006", "40", "53", "55P03", "57")
"""How the codes begin of what may go well later: a server that is away, stops, is full or only reads; a deadlock."""


def writing(server: Server) -> Any:
    """A connection in which every statement counts at once, unless a transaction is begun. Nothing is prepared: a plan
    that was good for a large step would be kept for small ones."""
    more: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
    if "tcp_user_timeout" not in server.url:
        more["tcp_user_timeout"] = str(LOST_SECONDS * 1000)
    return connected(server, **more)


@contextlib.contextmanager
def understood(server: Server, what: str, rights: str) -> Iterator[None]:
    """Turns what the server refuses into errors. `rights` is the statement that gives the user the rights that may be
    missing."""
    driver = library()
    try:
        yield
    except driver.Error as failure:
        raise _failed(failure, server, what, rights) from None


def _failed(failure: Any, server: Server, what: str, rights: str) -> Exception:
    """A connection that breaks has no code."""
    code, said = failure.sqlstate, failure.diag.message_primary
    if code is None or said is None:
        return broken(server, failure)
    if code.startswith(_PASSING):
        return Away(f"PostgreSQL at {server.place} takes nothing now", said)
    return _refusal(failure, server, what, rights)


def _refusal(failure: Any, server: Server, what: str, rights: str) -> Error:
    diagnosis = failure.diag
    where = (diagnosis.context or "").splitlines()[:1]
    known = {"42501": rights, "3F000": "create the schema first, or choose another table"}
    return make(
        "PIPELINE_FAILED",
        message=f"{what} cannot be written to PostgreSQL at {server.place}: {diagnosis.message_primary}",
        detail=diagnosis.message_detail or "".join(where) or None,
        hint=known.get(failure.sqlstate, "change the view or the table: the sink goes on by itself"),
    )
