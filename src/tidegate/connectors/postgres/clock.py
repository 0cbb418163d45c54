"""The processing clock as events are stamped by it."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Never goes back, not even from one run to the next: `last` is on record with the position."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.last = 0

    def now(self) -> int:
        self.last = max(self.last, self._now())
        return self.last

    def not_before(self, time_us: int) -> None:
        self.last = max(self.last, time_us)
