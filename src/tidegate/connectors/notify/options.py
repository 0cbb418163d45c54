"""What `FROM NOTIFY (...)` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.connectors.postgres.options import Server, server_options
from tidegate.core.options import Bag
from tidegate.errors import make

LONGEST_CHANNEL = 63


@dataclass(frozen=True)
class ListenOptions:
    server: Server
    channels: tuple[str, ...]


def listen_options(bag: Bag) -> ListenOptions:
    """Takes a source's options out of the bag."""
    server = server_options(bag)
    expected = f"names such as 'orders, payments', of at most {LONGEST_CHANNEL} bytes each"
    channels = bag.take("channels", channel_names, expected, aliases=("channel",))
    if channels is None:
        hint = "add channels = 'orders, payments'"
        raise make("MISSING_OPTION", where=bag.where, name="channels", hint=hint, span=bag.span)
    return ListenOptions(server, channels)


def channel_names(text: str) -> tuple[str, ...]:
    """`orders, payments`, as they are spelled in NOTIFY (small letters, unless they are quoted there)."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(0 < len(name.encode()) <= LONGEST_CHANNEL for name in found):
        raise ValueError(text)
    return found
