"""An LRU cache that is bounded by the size of what it holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """Keeps the values used last, up to `limit` in all; `size_of` gives the size of one."""

    def __init__(self, limit: int, size_of: Callable[[V], int]) -> None:
        self.limit, self.size = limit, 0
        self._size_of = size_of
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self.drop(key)
        self._entries[key] = value
        self.size += self._size_of(value)
        while self.size > self.limit and self._entries:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        value = self._entries.pop(key, None)
        if value is not None:
            self.size -= self._size_of(value)

    def clear(self) -> None:
        self._entries.clear()
        self.size = 0
