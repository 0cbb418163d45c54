"""Calls of the Kafka client have a time limit of our own."""

from __future__ import annotations

import threading

import pytest

from tidegate.connectors.kafka import patience
from tidegate.connectors.kafka.patience import in_time, release


def test_a_result_and_a_failure_pass_through() -> None:
    assert in_time(lambda: 7, 1.0) == 7
    with pytest.raises(KeyError):
        in_time(lambda: {}["x"], 1.0)


def test_a_call_that_does_not_return_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GRACE_SECONDS", 0.0)
    ended = threading.Event()
    with pytest.raises(TimeoutError, match="did not answer in 0 s"):
        in_time(ended.wait, 0.05)
    ended.set()


def test_a_client_is_closed_without_waiting_for_it() -> None:
    closing, ended = threading.Event(), threading.Event()

    def close(client: str) -> None:
        assert client == "client"
        closing.set()
        ended.wait(10)

    release("client", close)
    assert closing.wait(10) and not ended.is_set()
    ended.set()
