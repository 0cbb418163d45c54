"""The timer of a pipeline asks again when something has changed, also while it is asking."""

from __future__ import annotations

import errno
import queue
import threading
import time

import pytest

from tidegate.spark import timer as timers
from tidegate.spark.timer import ClockTimer


def test_it_ticks_when_something_is_due() -> None:
    ticked = threading.Event()
    timer = ClockTimer(lambda: time.time_ns() // 1000 + 60_000_000, ticked.set, pytest.fail)
    assert not ticked.wait(0.05)
    timer.stop()
    soon = time.time_ns() // 1000 + 20_000
    timer = ClockTimer(lambda: soon, ticked.set, pytest.fail)
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
    timer = ClockTimer(due, ticked.set, pytest.fail)
    assert asked.wait(10)
    timer.reschedule()
    ended.set()
    assert ticked.wait(10)
    timer.stop()


def test_it_ticks_when_the_due_time_is_relative_to_now() -> None:
    """An idle input is due "when the window ends, from now on": asked again, the time is a later one."""
    ticked = threading.Event()
    timer = ClockTimer(lambda: time.time_ns() // 1000 + 20_000, ticked.set, pytest.fail)
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

    timer = ClockTimer(lambda: 0, wake, pytest.fail)
    assert ticked.wait(10)
    timer.stop()
    assert caplog.messages == ["the clock of the pipeline cannot be moved: No space left on device: retrying"]


def test_it_sees_that_the_wall_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "LONGEST_WAIT_SECONDS", 0.01)
    ticked, true, hour = threading.Event(), time.time, 3600
    due = round((true() + hour) * 1e6)
    timer = ClockTimer(lambda: due, ticked.set, pytest.fail)
    assert not ticked.wait(0.1)
    monkeypatch.setattr(time, "time", lambda: true() + hour + 1)
    assert ticked.wait(10)
    timer.stop()


def test_it_reports_other_failures_and_ends() -> None:
    problem, failed = RuntimeError("the JVM has ended"), queue.Queue[Exception]()

    def wake() -> None:
        raise problem

    ClockTimer(lambda: 0, wake, failed.put)
    assert failed.get(timeout=10) is problem
