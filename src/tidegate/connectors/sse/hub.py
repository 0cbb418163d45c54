"""The newest events, kept once for all clients, each of which reads at its own pace."""

from __future__ import annotations

import asyncio
import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

END = 1 << 62
_ID = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class EventId(NamedTuple):
    """An event's step and its number there. As text `12-0`, or `12` for the position after all events of step 12."""

    step: int
    number: int

    def __str__(self) -> str:
        return str(self.step) if self.number == END else f"{self.step}-{self.number}"

    @classmethod
    def end_of(cls, step: int) -> EventId:
        return cls(step, END)

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """Parse an id; None if the text is not one."""
        match = _ID.fullmatch(text.strip())
        return None if match is None else cls(int(match[1]), END if match[2] is None else int(match[2]))


class Item(NamedTuple):
    """An event as clients receive it."""

    id: EventId
    name: str
    text: str


class Behind(Exception):
    """A client requests events that are no longer in memory."""


class Hub:
    """Holds the newest `keep` events: all that come after `floor`.

    One thread publishes; clients read and wait in the event loop of the server.
    """

    def __init__(self, keep: int, floor: EventId) -> None:
        self._keep, self._items = keep, list[Item]()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrival = asyncio.Event()
        self.floor = self.last = floor
        self.closed = False

    def publish(self, items: Sequence[Item]) -> None:
        """Add the events of a step and wake the clients."""
        with self._lock:
            self._items += items
            if self._items:
                self.last = self._items[-1].id
            surplus = len(self._items) - self._keep
            if surplus > 0:
                self.floor = self._items[surplus - 1].id
                del self._items[:surplus]
            self._wake()

    def after(self, id: EventId, most: int) -> list[Item]:
        """Return up to `most` events after an id. Raises Behind if some of them are no longer here."""
        with self._lock:
            if id < self.floor:
                raise Behind
            first = bisect_right(self._items, id, key=_id)
            return self._items[first : first + most]

    async def next(self, id: EventId, most: int, seconds: float) -> list[Item]:
        """Return up to `most` events after an id as soon as there is one; none after `seconds`, or at the end."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                while not self.closed:
                    arrival = self._arrival
                    if items := self.after(id, most):
                        return items
                    await arrival.wait()
        except TimeoutError:
            pass
        return []

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        arrival, self._arrival = self._arrival, asyncio.Event()
        arrival.set()


def _id(item: Item) -> EventId:
    return item.id
