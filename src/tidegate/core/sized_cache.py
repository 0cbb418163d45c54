"""An LRU cache that is bounded by the size of what it holds."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

IDLE_SECONDS = 120.0


class SizedCache(Generic[K, V]):
    """Keeps the values used last, up to `limit` bytes in all; `size_of` gives the size of one.

    A value that was not used for `idle` seconds is dropped by a later `put`: what no longer exists is never asked for
    again, and would otherwise fill the cache up to its limit.
    """

    def __init__(
        self,
        limit: int,
        size_of: Callable[[V], int],
        idle: float = IDLE_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit, self.size = limit, 0
        self._size_of, self._idle, self._now = size_of, idle, now
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries[key] = (entry[0], self._now())
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V) -> None:
        self.drop(key)
        now = self._now()
        self._entries[key] = (value, now)
        self.size += self._size_of(value)
        while self._entries:
            oldest, (_, used) = next(iter(self._entries.items()))
            if self.size <= self.limit and now - used <= self._idle:
                return
            self.drop(oldest)

    def drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.size -= self._size_of(entry[0])

    def clear(self) -> None:
        self._entries.clear()
        self.size = 0
