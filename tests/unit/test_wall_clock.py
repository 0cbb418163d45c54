"""The clock of a folder never goes back, whatever happens to that of the machine."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.runtime.polled_tables import microseconds_left
from tidegate.spark.clock import ClockSource
from tidegate.storage.clock_file import read_clock, write_clock
from tidegate.storage.folder import Folder
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import StepLog, StepRecord
from tidegate.storage.wall_clock import WallClock

NOON, HOUR = 1_714_564_800_000_000, 3_600_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Folder(tmp_path / "data") as folder:
        folder.open()
        return folder.root


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock of the machine, and the time that has truly passed, in microseconds."""
    clock = [NOON, 1]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0] * 1000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[1] * 1000)
    return clock


def log_with_step(folder: Path, time_us: int) -> StepLog:
    log = StepLog(Folder(folder).storage)
    log.write(StepRecord(replace(StepHeader.empty(1), time_us=time_us), {}))
    return log


def test_it_follows_the_machine_forward_and_goes_at_half_speed_while_that_one_is_behind(
    folder: Path, machine: list[int]
) -> None:
    clock = WallClock(folder, StepLog(Folder(folder).storage))
    told = []
    for hours, passed in ((0, 0), (6, 6), (2, 0), (4, 2), (6, 2), (8, 2), (10, 2), (11, 1)):
        machine[:] = NOON + hours * HOUR, machine[1] + passed * HOUR
        told.append((clock.now_us() - NOON) / HOUR)
    assert told == [0, 6, 6, 7, 8, 9, 10, 11]


def test_it_is_not_behind_the_last_step_and_the_last_tick_of_an_earlier_process(
    folder: Path, machine: list[int]
) -> None:
    machine[0] = NOON - 3 * HOUR
    assert WallClock(folder, log_with_step(folder, NOON)).now_us() == NOON
    write_clock(folder, {**read_clock(folder), "time": NOON + HOUR})
    assert WallClock(folder, StepLog(Folder(folder).storage)).now_us() == NOON + HOUR


def test_it_warns_once_while_it_is_ahead(folder: Path, machine: list[int], caplog: pytest.LogCaptureFixture) -> None:
    clock = WallClock(folder, log_with_step(folder, NOON))
    with caplog.at_level(logging.WARNING):
        for machine[0] in (NOON - 1000, NOON - 2 * HOUR, NOON - HOUR, NOON + 1, NOON - HOUR):
            clock.now_us()
    assert [each.getMessage().partition(";")[0] for each in caplog.records] == [
        "CLOCK_BEHIND: the clock of the machine is 2h behind that of the pipeline, which goes at half speed meanwhile",
        "CLOCK_BEHIND: the clock of the machine is 1h behind that of the pipeline, which goes at half speed meanwhile",
    ]


def test_the_time_of_a_step_is_not_before_that_of_the_step_before_it(folder: Path) -> None:
    """Spark plans a micro-batch at the time of the machine, also one without a new clock of the feed."""
    log_with_step(folder, NOON)
    checkpoint = folder / "generations" / "0" / "checkpoint"
    for batch, planned in enumerate((NOON, NOON - 2 * HOUR)):
        path = checkpoint / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'v1\n{{"batchTimestampMs":{planned // 1000}}}\n-')
    start = json.dumps({"entry": 0, "tick": 0, "time": 0, "lines": {}})
    source = ClockSource("launch", str(checkpoint), 0, start, True, str(folder))
    assert (source.at(1).time_us, source.at(1).previous_time_us) == (NOON, NOON)


@pytest.mark.parametrize(
    ("now", "left"), [(NOON, HOUR), (NOON + HOUR - 1, 1), (NOON + HOUR, 0), (NOON + 9 * HOUR, 0), (NOON - HOUR, 0)]
)
def test_a_table_is_read_again_after_its_period_and_when_the_clock_was_set_back(now: int, left: int) -> None:
    assert microseconds_left(NOON, HOUR, now) == left
