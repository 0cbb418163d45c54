"""A timer of the wall clock: ticks a pipeline when something is due, and never otherwise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LONGEST_WAIT_SECONDS = 1.0
"""How often the clock is read while something is due later: it may be set meanwhile."""
RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class ClockTimer:
    """Calls `wake` when `now` reaches the time that `due` returns (both in microseconds, None: never). An error of the
    file system is tried again; any other is passed to `failed`, and the timer ends."""

    def __init__(
        self,
        due: Callable[[], int | None],
        wake: Callable[[], None],
        now: Callable[[], int],
        failed: Callable[[Exception], None],
    ) -> None:
        self._due, self._wake, self._now, self._failed = due, wake, now, failed
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
        failed = False
        while not self._stopped:
            try:
                self._wait_and_wake()
                failed = False
            except OSError as problem:
                if not failed:
                    _log.warning("the clock of the pipeline cannot be moved: %s: retrying", problem.strerror or problem)
                failed = True
                self._wait(RETRY_SECONDS)
            except Exception as problem:
                return self._failed(problem)
        return None

    def _wait_and_wake(self) -> None:
        """One tick, or a wait until something has changed: then the next due time may be another one."""
        self._rescheduled = False
        due = self._due()
        if due is None:
            return self._wait(None)
        while (remaining := due - self._now()) > 0:
            self._wait(min(remaining / 1e6, LONGEST_WAIT_SECONDS))
            if self._rescheduled or self._stopped:
                return None
        # A step may have ended while `due` was computed: what it returned is outdated then.
        if not self._rescheduled and not self._stopped:
            self._wake()
            self._wait(1)
        return None

    def _wait(self, seconds: float | None) -> None:
        with self._changed:
            if not self._rescheduled and not self._stopped:
                self._changed.wait(seconds)
