"""When the clock moves the watermarks of idle inputs: at ticks, which other inputs neither cause nor postpone."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.circuit.model import Circuit, Op
from tidegate.ir.specs import AggregateSpec, WindowAggregateSpec
from tidegate.ir.windows import CalendarInterval, WindowSpec
from tidegate.kernels.api import Clock
from tidegate.spark.watermark_tracker import WatermarkTracker
from tidegate.spark.watermarks import InputProgress
from tidegate.traits.watermark import DeclaredWatermark, observed_name

SECOND = 1_000_000
START = 1_000 * SECOND
OPEN = {"windows"}


@pytest.fixture
def tracker() -> WatermarkTracker:
    """A window of ten seconds with one row at its third second, of an input that is idle after two seconds."""
    watermark = DeclaredWatermark("timestamp", "readings", "ts", "watermark", None)
    window = WindowSpec("tumble", "ts", CalendarInterval(micros=10 * SECOND))
    kernel = WindowAggregateSpec(window, AggregateSpec(("window_start", "window_end"), (), True, False), watermark.name)
    circuit = Circuit((), (Op("windows", 1, kernel, (), (), ""),), (), watermarks=(watermark,))
    progress = InputProgress(
        seen={observed_name("readings", "ts"): 3 * SECOND}, rows={"readings": START}, since={"readings": START}
    )
    tracker = WatermarkTracker(None, circuit, progress, {"readings": 2 * SECOND})  # type: ignore[arg-type]
    tracker.tick({}, START)
    return tracker


def step_of_another_input(tracker: WatermarkTracker, time_us: int) -> None:
    clock = Clock(1, time_us, dict(tracker.watermarks))
    stats: dict[str, Any] = {"advanced": [], "rows_in": {"orders": 1}, "seen": {}, "shards": {}}
    tracker.after(stats, clock, {})
    tracker.finish_step(clock, unread=True)


def test_time_moves_the_watermark_at_a_tick(tracker: WatermarkTracker) -> None:
    assert tracker.tick(tracker.watermarks, START + SECOND) == {"readings.ts": 3 * SECOND}
    assert tracker.tick(tracker.watermarks, START + 4 * SECOND) == {"readings.ts": 7 * SECOND}


def test_a_step_of_another_input_moves_nothing(tracker: WatermarkTracker) -> None:
    """If it did, the pipeline would put the new watermark on its clock, which causes a step, and so on for good."""
    tracker.tick(tracker.watermarks, START + 4 * SECOND)
    step_of_another_input(tracker, START + 5 * SECOND)
    assert tracker.watermarks == {"readings.ts": 7 * SECOND}


def test_steps_of_another_input_do_not_postpone_the_end_of_a_window(tracker: WatermarkTracker) -> None:
    assert tracker.next_idle(OPEN) == START + 2 * SECOND
    tracker.tick(tracker.watermarks, START + 2 * SECOND)
    due = START + 7 * SECOND
    assert tracker.next_idle(OPEN) == due
    for second in range(3, 12):
        step_of_another_input(tracker, START + second * SECOND)
        assert tracker.next_idle(OPEN) == due
    tracker.tick(tracker.watermarks, due)
    assert tracker.watermarks == {"readings.ts": 10 * SECOND}


def test_nothing_is_due_without_open_windows(tracker: WatermarkTracker) -> None:
    assert tracker.next_idle(set()) is None


def test_a_partition_that_becomes_idle_between_a_tick_and_the_question_is_due() -> None:
    watermark = DeclaredWatermark("timestamp", "readings", "ts", "watermark", None)
    name = observed_name("readings", "ts")
    progress = InputProgress(shards={name: {"0": (9 * SECOND, START + SECOND), "1": (3 * SECOND, START)}})
    tracker = WatermarkTracker(None, Circuit((), (), (), watermarks=(watermark,)), progress, {})  # type: ignore[arg-type]
    tracker._quiet = {name: 5 * SECOND}
    tracker.tick({}, START + 4 * SECOND)
    assert tracker.watermarks == {"readings.ts": 3 * SECOND}
    assert tracker.next_idle({}) == START + 5 * SECOND
    tracker.tick(tracker.watermarks, START + 5 * SECOND)
    assert tracker.watermarks == {"readings.ts": 9 * SECOND}
