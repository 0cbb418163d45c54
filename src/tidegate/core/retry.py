"""Retries: one backoff, and one loop that repeats a call until it succeeds or its time is over."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """Pauses between attempts, in seconds: each is twice the last, up to `longest`.

    `jitter` is the share of a pause by which it is randomly shortened, so that many clients do not return at the same
    moment.
    """

    first: float
    longest: float
    jitter: float = 0.0

    def pause(self, failures: int, draw: Callable[[], float] = random.random) -> float:
        """The pause after a number of failures in a row."""
        longest = min(self.first * 2.0 ** min(failures - 1, 60), self.longest)
        return longest * (1.0 - draw() * self.jitter)


def retry(
    call: Callable[[], T],
    is_transient: Callable[[Exception], bool],
    backoff: Backoff,
    timeout: float,
    stopped: threading.Event | None = None,
    now: Callable[[], float] = time.monotonic,
) -> T:
    """Return what `call` returns, repeating it while it fails transiently.

    The last error is raised once `timeout` seconds have passed or `stopped` is set, which also ends a pause.
    """
    stopped = stopped or threading.Event()
    deadline, failures = now() + timeout, 0
    while True:
        try:
            return call()
        except Exception as problem:
            if not is_transient(problem) or stopped.is_set() or now() > deadline:
                raise
        failures += 1
        stopped.wait(backoff.pause(failures))
