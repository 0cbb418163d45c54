"""The options of `INTO SSE (...)`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidegate.connectors.http import host_of, origin_of, path_of, port_of
from tidegate.core.options import Bag
from tidegate.errors import make

HEARTBEAT = timedelta(seconds=15)


@dataclass(frozen=True)
class StreamOptions:
    """Where clients connect, and how many events are kept in memory for them."""

    host: str
    port: int
    path: str
    token: str | None
    heartbeat: float
    keep: int
    max_clients: int
    cors: str | None


def stream_options(bag: Bag) -> StreamOptions:
    """Take the sink's options out of the bag."""
    token_at, beat_at = bag.span_of("token"), bag.span_of("heartbeat")
    token = bag.text("token")
    heartbeat = (bag.duration("heartbeat", HEARTBEAT) or timedelta()).total_seconds()
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise make("INVALID_OPTION", message="the token is not a line of ASCII", hint="choose another", span=token_at)
    if heartbeat <= 0:
        raise make("INVALID_OPTION", message="heartbeat cannot be zero", hint="write heartbeat = '15s'", span=beat_at)
    return StreamOptions(
        host=host_of(bag, token is not None, "token"),
        port=port_of(bag, 8080),
        path=path_of(bag, "/events"),
        token=token,
        heartbeat=heartbeat,
        keep=bag.integer("keep", 10_000, minimum=1) or 1,
        max_clients=bag.integer("max_clients", 1000, minimum=1) or 1,
        cors=origin_of(bag),
    )
