"""The timer of a pipeline asks again when something has changed, also while it is asking."""

from __future__ import annotations

import errno
import queue
import threading
import time

import pytest

from tidegate.spark import timer as timers
from tidegate.spark.timer import ClockTimer


def now() -> int:
    return time.time_ns() // 1000


def test_it_ticks_when_something_is_due() -> None:
    ticked = threading.Event()
    timer = ClockTimer(lambda: now() + 60_000_000, ticked.set, now, pytest.fail)
    assert not ticked.wait(0.05)
    timer.stop()
    soon = now() + 20_000
    timer = ClockTimer(lambda: soon, ticked.set, now, pytest.fail)
    assert ticked.wait(10)
    timer.stop()


def test_a_change_while_it_asks_is_not_lost() -> None:
    asked, ended = threading.Event(), threading.Event()
    answers = [None, 0]

    def due() -> int | None:
        answer = answers.pop(0) if answers else None
        if answer is None:
            asked.set()
            ended.wait(10)
        return answer

    ticked = threading.Event()
    timer = ClockTimer(due, ticked.set, now, pytest.fail)
    assert asked.wait(10)
    timer.reschedule()
    ended.set()
    assert ticked.wait(10)
    timer.stop()


def test_it_ticks_when_the_due_time_is_relative_to_now() -> None:
    """An idle input is due "when the window ends, from now on": asked again, the time is a later one."""
    ticked = threading.Event()
    timer = ClockTimer(lambda: now() + 20_000, ticked.set, now, pytest.fail)
    assert ticked.wait(10)
    timer.stop()


def test_it_tries_again_if_a_tick_fails(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """As on a full disk, where the clock cannot be written: without it no time would pass any more."""
    monkeypatch.setattr(timers, "RETRY_SECONDS", 0.01)
    ticked, failures = threading.Event(), [OSError(errno.ENOSPC, "No space left on device") for _ in range(3)]

    def wake() -> None:
        if failures:
            raise failures.pop()
        ticked.set()

    timer = ClockTimer(lambda: 0, wake, now, pytest.fail)
    assert ticked.wait(10)
    timer.stop()
    assert caplog.messages == ["the clock of the pipeline cannot be moved: No space left on device: retrying"]


def test_a_clock_that_is_set_forward_ends_the_wait_and_one_that_is_set_back_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "LONGEST_WAIT_SECONDS", 0.01)
    clock, read, ticked = [0], threading.Event(), threading.Event()

    def told() -> int:
        read.set()
        return clock[0]

    timer = ClockTimer(lambda: 7_200_000_000, ticked.set, told, pytest.fail)
    assert read.wait(10)
    clock[0] = -7_200_000_000
    read.clear()
    assert read.wait(10) and not ticked.is_set()
    clock[0] = 7_200_000_000
    assert ticked.wait(10)
    timer.stop()


def test_it_reports_other_failures_and_ends() -> None:
    problem, failed = RuntimeError("the JVM has ended"), queue.Queue[Exception]()

    def wake() -> None:
        raise problem

    ClockTimer(lambda: 0, wake, now, failed.put)
    assert failed.get(timeout=10) is problem
