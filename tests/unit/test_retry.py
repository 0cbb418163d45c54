"""Retries: pauses, which errors are retried, and when they give up."""

from __future__ import annotations

import threading

import pytest

from tidegate.core.retry import Backoff, retry

QUICK = Backoff(first=1.0, longest=4.0)


class FakeTime(threading.Event):
    """A clock that is moved by waiting, and an event that is set at a certain time."""

    def __init__(self, stops_at: float = float("inf")) -> None:
        super().__init__()
        self.time = 0.0
        self.stops_at = stops_at
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.time

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        self.time += timeout
        if self.time >= self.stops_at:
            self.set()
        return self.is_set()


class Flaky:
    """Fails a number of times before it succeeds."""

    def __init__(self, failures: int, problem: type[Exception] = OSError) -> None:
        self.left = failures
        self.problem = problem
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.left:
            raise self.problem(f"failure {self.calls}")
        return "answer"


def is_os_error(problem: Exception) -> bool:
    return isinstance(problem, OSError)


def test_pauses_double_up_to_the_longest() -> None:
    assert [Backoff(1, 60).pause(failures) for failures in (1, 2, 3, 7, 5000)] == [1, 2, 4, 60, 60]


def test_jitter_shortens_a_pause() -> None:
    backoff = Backoff(1, 60, jitter=0.5)
    assert [backoff.pause(3, draw) for draw in (lambda: 0.0, lambda: 0.5, lambda: 1.0)] == [4.0, 3.0, 2.0]


def test_a_call_is_repeated_until_it_succeeds() -> None:
    time, call = FakeTime(), Flaky(4)
    assert retry(call, is_os_error, QUICK, 60, time, time.now) == "answer"
    assert (call.calls, time.pauses) == (5, [1.0, 2.0, 4.0, 4.0])


def test_the_last_error_is_raised_when_the_time_is_over() -> None:
    time, call = FakeTime(), Flaky(100)
    with pytest.raises(OSError, match="failure 4"):
        retry(call, is_os_error, QUICK, 6.5, time, time.now)
    assert time.time == 7.0


def test_other_errors_are_raised_at_once() -> None:
    time, call = FakeTime(), Flaky(1, KeyError)
    with pytest.raises(KeyError):
        retry(call, is_os_error, QUICK, 60, time, time.now)
    assert not time.pauses


def test_a_stop_ends_the_retries() -> None:
    time, call = FakeTime(stops_at=3.0), Flaky(100)
    with pytest.raises(OSError, match="failure 3"):
        retry(call, is_os_error, QUICK, 60, time, time.now)
    assert time.time == 3.0
