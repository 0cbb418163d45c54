"""The newest events, kept for all clients at once, each of which reads at its own pace."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

END = 1 << 62
_ID = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class Place(NamedTuple):
    """An event's place: its step and its number there. As text `12-0`, or `12` for the place behind all of step 12."""

    step: int
    number: int

    def __str__(self) -> str:
        return str(self.step) if self.number == END else f"{self.step}-{self.number}"

    @classmethod
    def behind(cls, step: int) -> Place:
        return cls(step, END)

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """None for a text that is no place."""
        found = _ID.fullmatch(text.strip())
        return None if found is None else cls(int(found[1]), END if found[2] is None else int(found[2]))


class Item(NamedTuple):
    """An event on its way to clients."""

    place: Place
    name: str
    text: str


class Behind(Exception):
    """A client wants events that are no longer kept in memory."""


class Hub:
    """Holds the newest `keep` events, and wakes clients when there are more. All events behind `floor` are here."""

    def __init__(self, keep: int, floor: Place) -> None:
        self._keep, self._items = keep, list[Item]()
        self._arrived = threading.Condition()
        self.floor = self.last = floor
        self.closed = False

    def publish(self, items: Sequence[Item]) -> None:
        """Adds the events of a step."""
        with self._arrived:
            self._items += items
            if self._items:
                self.last = self._items[-1].place
            surplus = len(self._items) - self._keep
            if surplus > 0:
                self.floor = self._items[surplus - 1].place
                del self._items[:surplus]
            self._arrived.notify_all()

    def after(self, place: Place, most: int, seconds: float) -> list[Item]:
        """The next events behind a place, as soon as there are some; none after so many seconds, or at the end."""
        deadline = time.monotonic() + seconds
        with self._arrived:
            while not self.closed:
                if place < self.floor:
                    raise Behind
                first = bisect_right(self._items, place, key=_place)
                left = deadline - time.monotonic()
                if first < len(self._items) or left <= 0:
                    return self._items[first : first + most]
                self._arrived.wait(left)
        return []

    def close(self) -> None:
        with self._arrived:
            self.closed = True
            self._arrived.notify_all()


def _place(item: Item) -> Place:
    return item.place
