"""Time limits of our own for the Kafka client. It waits by the wall clock: if that is set back by an hour while a call
waits, the call takes an hour longer, whatever timeout it was given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 2.0
"""How much longer than its own timeout a call may take."""


def in_time(call: Callable[[], T], seconds: float) -> T:
    """The result of a call, made in a thread of its own. One that does not return in `seconds` and a grace is left to
    itself, with TimeoutError: never use its client again, and do not close it."""
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True, name="tidegate-kafka")
    thread.start()
    thread.join(seconds + GRACE_SECONDS)
    if thread.is_alive():
        raise TimeoutError(f"the Kafka client did not answer in {seconds:.0f} s")
    if problems:
        raise problems[0]
    return results[0]


def release(client: Any, close: Callable[[Any], object]) -> None:
    """Close a client in the background, and let it go there: both can wait."""
    held = [client]
    del client

    def run() -> None:
        last = held.pop()
        close(last)

    threading.Thread(target=run, daemon=True, name="tidegate-kafka-close").start()
