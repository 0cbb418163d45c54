"""Sinks that fail: each stops alone, pauses, and resumes after its last step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers import wait_until
from tidegate.catalog import Catalog
from tidegate.catalog.relation import ConnectorNote, Relation
from tidegate.connectors.contract import Interrupted, OutputClosed
from tidegate.connectors.files.sink import FilesSink
from tidegate.connectors.webhook.sink import DeliveryError
from tidegate.core.schema import Column
from tidegate.errors import Error
from tidegate.runtime.sinks import Sinks
from tidegate.storage.folder import Folder
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import StepLog, StepRecord

COLUMNS = (Column("n", "bigint"),)


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder(tmp_path / "data") as opened:
        opened.open()
        yield opened


@pytest.fixture
def log(folder: Folder) -> StepLog:
    return StepLog(folder.storage)


def step(log: StepLog, number: int) -> None:
    rows = pa.table({"n": pa.array([number], pa.int64()), "__op": ["+I"], "__w": pa.array([1], pa.int64())})
    log.write(StepRecord(StepHeader.empty(number), {"v": rows}))


def catalog(**paths: Path) -> Catalog:
    view = Relation("v", "view", COLUMNS, "CREATE VIEW v AS SELECT 1 AS n", changes="append")
    sinks = [
        Relation(
            name,
            "sink",
            COLUMNS,
            f"CREATE SINK {name} FROM v INTO FILES (path = '{path}')",
            connector=ConnectorNote("FILES", (("path", str(path)),)),
            dependencies=("v",),
        )
        for name, path in paths.items()
    ]
    return Catalog((view, *sinks))


def rows_in(path: Path) -> list[Any]:
    return [row["n"] for file in sorted(path.glob("[!_]*.parquet")) for row in pq.read_table(file).to_pylist()]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sinks(folder: Folder, log: StepLog, clock: Clock) -> Iterator[Sinks]:
    created = Sinks(folder, log, clock)
    yield created
    created.close()


def test_a_sink_that_fails_stops_alone_and_resumes_later(
    sinks: Sinks, log: StepLog, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    sinks.open(catalog(bad=bad, good=good), {})
    step(log, 1)
    sinks.apply()
    bad.rename(tmp_path / "away")
    for number in (2, 3):
        step(log, number)
        sinks.apply()
    assert rows_in(good) == [1, 2, 3]
    assert set(sinks.failures) == {"bad"} and sinks.oldest() == 1
    (tmp_path / "away").rename(bad)
    sinks.apply()
    assert rows_in(bad) == [1], "it pauses for a second"
    clock.time += 1
    sinks.apply()
    assert rows_in(bad) == [1, 2, 3]
    assert sinks.failures == {} and sinks.oldest() == 3
    messages = caplog.messages
    assert len(messages) == 2
    assert messages[0].startswith("sink bad stopped, and will be tried again: ") and str(bad) in messages[0]
    assert messages[1] == "sink bad goes on after step 3"


def test_pauses_between_attempts_grow(sinks: Sinks, log: StepLog, clock: Clock, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    sinks.open(catalog(bad=bad), {})
    bad.rename(tmp_path / "away")
    step(log, 1)
    rests = []
    for _ in range(7):
        sinks.apply()
        [running] = sinks._running.values()
        rests.append(running.due - clock.time)
        clock.time = running.due
    assert rests == [1, 2, 4, 8, 16, 30, 30]
    (tmp_path / "away").rename(bad)
    sinks.apply()
    bad.rename(tmp_path / "away")
    step(log, 2)
    sinks.apply()
    assert running.due - clock.time == 1, "a success forgets the failures before it"


def test_a_destination_that_is_missing_at_the_start_is_retried(
    sinks: Sinks, log: StepLog, clock: Clock, tmp_path: Path
) -> None:
    step(log, 1)
    (tmp_path / "bad").write_text("a file where the folder should be")
    sinks.open(catalog(bad=tmp_path / "bad", good=tmp_path / "good"), {})
    assert set(sinks.failures) == {"bad"} and sinks.oldest() == 0
    assert rows_in(tmp_path / "good") == [1]
    (tmp_path / "bad").unlink()
    clock.time += 1
    sinks.apply()
    assert rows_in(tmp_path / "bad") == [1] and sinks.oldest() == 1


def test_an_invalid_destination_is_an_error_at_the_start(
    sinks: Sinks, folder: Folder, log: StepLog, tmp_path: Path
) -> None:
    sinks.open(catalog(out=tmp_path / "out"), {})
    step(log, 1)
    sinks.apply()
    sinks.close()
    with pytest.raises(Error, match="holds files of another sink"):
        Sinks(folder, log).open(catalog(out=tmp_path / "out"), {"out": 1})


def test_a_failed_sink_is_retried_without_a_new_step(folder: Folder, log: StepLog, tmp_path: Path) -> None:
    step(log, 1)
    (tmp_path / "bad").write_text("a file where the folder should be")
    sinks = Sinks(folder, log)
    sinks.open(catalog(bad=tmp_path / "bad"), {})
    (tmp_path / "bad").unlink()
    wait_until(lambda: not sinks.failures, "the next attempt", 20)
    assert rows_in(tmp_path / "bad") == [1]
    sinks.close()


def test_a_dropped_sink_is_not_listed_as_failed(sinks: Sinks, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("a file where the folder should be")
    sinks.open(catalog(bad=tmp_path / "bad"), {})
    assert set(sinks.failures) == {"bad"}
    sinks.open(catalog(), {})
    assert sinks.failures == {} and sinks.oldest() is None


def test_a_slow_sink_does_not_delay_others(
    sinks: Sinks, log: StepLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sink has its own thread; at the end all have written everything."""
    slow, good = tmp_path / "slow", tmp_path / "good"
    cast = catalog(slow=slow, good=good)
    sinks.open(cast, {})
    release = threading.Event()
    write = FilesSink.write

    def write_when_released(sink: FilesSink, number: int, changes: pa.Table) -> None:
        if sink.spec.name == "slow":
            assert release.wait(30)
        write(sink, number, changes)

    monkeypatch.setattr(FilesSink, "write", write_when_released)
    sinks.open(cast, {}, follow=True)
    for number in (1, 2, 3):
        step(log, number)
        sinks.apply()
    wait_until(lambda: rows_in(good) == [1, 2, 3], "the other sink")
    assert rows_in(slow) == [] and sinks.behind()["slow"] == 3
    release.set()
    sinks.settle()
    assert rows_in(slow) == [1, 2, 3] and sinks.oldest() == 3


def test_a_sink_on_its_own_thread_is_retried(sinks: Sinks, log: StepLog, clock: Clock, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    sinks.open(catalog(bad=bad), {})
    bad.rename(tmp_path / "away")
    sinks.open(catalog(bad=bad), {}, follow=True)
    step(log, 1)
    sinks.apply()
    wait_until(lambda: "bad" in sinks.failures, "the failure")
    (tmp_path / "away").rename(bad)
    clock.time += 1
    sinks.apply()
    wait_until(lambda: rows_in(bad) == [1] and not sinks.failures, "the next attempt")


def test_a_long_write_is_interrupted_when_the_pipeline_ends(
    sinks: Sinks, log: StepLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink resumes there in the next run, and does not count as failed."""
    slow, good = tmp_path / "slow", tmp_path / "good"
    cast, write, started = catalog(slow=slow, good=good), FilesSink.write, threading.Event()
    monkeypatch.setattr("tidegate.runtime.sinks.GRACE_SECONDS", 0.05)

    def write_until_interrupted(sink: FilesSink, number: int, changes: pa.Table) -> None:
        ending = sinks._running["slow"].context.ending
        if sink.spec.name == "slow":
            started.set()
            assert ending.wait(30)
            raise Interrupted
        write(sink, number, changes)

    monkeypatch.setattr(FilesSink, "write", write_until_interrupted)
    sinks.open(cast, {}, follow=True)
    step(log, 1)
    sinks.apply()
    assert started.wait(30)
    sinks.settle()
    assert rows_in(good) == [1] and sinks.behind() == {"slow": 1, "good": 0} and sinks.failures == {}
    monkeypatch.setattr(FilesSink, "write", write)
    sinks.open(cast, {})
    assert rows_in(slow) == [1] and sinks.behind() == {"slow": 0, "good": 0}
    assert caplog.messages == []


@pytest.mark.parametrize("follow", [False, True])
def test_a_closed_output_ends_the_pipeline(
    sinks: Sinks, log: StepLog, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    """The error is raised once, the sink is not retried, and the step does not count as printed."""
    tries: list[int] = []

    def fail(sink: FilesSink, number: int, changes: pa.Table) -> None:
        tries.append(number)
        raise OutputClosed

    monkeypatch.setattr(FilesSink, "write", fail)
    sinks.open(catalog(out=tmp_path / "out"), {}, follow)
    step(log, 1)
    if follow:
        sinks.apply()
        wait_until(lambda: sinks.crash is not None, "the end")
        with pytest.raises(OutputClosed):
            sinks.check()
    else:
        with pytest.raises(OutputClosed):
            sinks.apply()
    clock.time += 3600
    sinks.close()
    assert tries == [1]


def test_only_sinks_that_will_give_up_are_waited_for(sinks: Sinks, log: StepLog, tmp_path: Path, clock: Clock) -> None:
    bad = tmp_path / "bad"
    sinks.open(catalog(bad=bad), {})
    bad.rename(tmp_path / "away")
    step(log, 1)
    sinks.apply()
    assert set(sinks.failures) == {"bad"} and not sinks.retrying()
    running = sinks._running["bad"]
    sinks._postpone("bad", running, "later", DeliveryError("later", 5.0))
    assert sinks.retrying() and running.due == clock.time + 5


def test_an_error_at_the_start_names_the_sink(sinks: Sinks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        view = catalog().get("v")
        connector = ConnectorNote("SSE", (("port", str(port)),))
        text = f"CREATE SINK live FROM v INTO SSE (port = '{port}')"
        sink = Relation("live", "sink", COLUMNS, text, connector=connector, dependencies=("v",))
        with pytest.raises(Error) as caught:
            sinks.open(Catalog((view, sink)), {})
    assert str(caught.value) == (
        f"INVALID_OPTION: sink live: port {port} of 127.0.0.1 is in use\n"
        "  hint: choose another port, or stop who listens on it"
    )
