"""Signals that child processes inherit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def shield_from_interrupt() -> Iterator[None]:
    """Protect processes that are started in the block from Ctrl-C: they inherit that SIGINT is blocked. A
    terminal sends it to all processes of a command, and a Python worker of Spark would die in the middle of a step."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
