"""A timer of the wall clock: ticks a pipeline when something is due, and never otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class ClockTimer:
    """Calls `wake` when the time that `due` returns (microseconds, None: never) is reached."""

    def __init__(self, due: Callable[[], int | None], wake: Callable[[], None]) -> None:
        self._due, self._wake = due, wake
        self._changed = threading.Condition()
        self._stopped = self._rescheduled = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="tidegate-timer")
        self._thread.start()

    def reschedule(self) -> None:
        """Ask for the next due time again."""
        with self._changed:
            self._rescheduled = True
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while not self._stopped:
            self._rescheduled = False
            due = self._due()
            with self._changed:
                remaining = None if due is None else max(due / 1e6 - time.time(), 0)
                # A step may have ended while `due` was computed: what it returned is outdated then.
                if not self._rescheduled and not self._stopped:
                    self._changed.wait(remaining)
                # Asked again without a step in between, `due` may return a later time: it can be relative to now.
                if remaining is None or self._rescheduled or self._stopped:
                    continue
            self._wake()
            with self._changed:
                if not self._rescheduled and not self._stopped:
                    self._changed.wait(timeout=1)
