"""The clock of a step, as a worker reads it: from Spark's write-ahead log, where it stood before the step began. So a
step that is run again sees the same time, and one without a new clock row still knows the last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tidegate.kernels.api import Clock
from tidegate.spark import compat
from tidegate.storage.checkpoint import NO_OFFSET, Checkpoint
from tidegate.storage.objects import LocalStorage
from tidegate.storage.step_log import read_time


@dataclass(frozen=True)
class ClockSource:
    """Where a generation's clocks are: its checkpoint, the step before its first, the clock that it began with (JSON),
    whether time is the wall's, and the data folder. `launch` tells apart the runs of a query, which workers outlive:
    they cache clocks, and a folder at the same path may be another one."""

    launch: str
    checkpoint: str
    base_step: int
    start: str
    wall: bool
    folder: str

    def now(self) -> Clock:
        """The clock of the step that this task belongs to."""
        return self.at(compat.batch_of_task())

    def step(self) -> int:
        """The step that this task belongs to."""
        return self.base_step + compat.batch_of_task() + 1

    def at(self, batch: int) -> Clock:
        return _clock(self, batch)


@lru_cache(maxsize=8)
def _clock(source: ClockSource, batch: int) -> Clock:
    now, before = _offset(source, batch), _offset(source, batch - 1)
    previous_us = before["time"]
    if source.wall:
        # The machine's clock may have been set back since; that of the pipeline is not.
        previous_us = max(previous_us, read_time(LocalStorage(Path(source.folder)), source.base_step + batch))
    return Clock(
        step=source.base_step + batch + 1,
        time_us=max(now["time"], previous_us),
        watermarks=now.get("lines", {}),
        previous_watermarks=before.get("lines", {}),
        previous_time_us=previous_us,
    )


@lru_cache(maxsize=8)
def _offset(source: ClockSource, batch: int) -> dict[str, Any]:
    """The feed's offset after a batch. In wall time a batch without a new clock has the time it was planned at."""
    start: dict[str, Any] = json.loads(source.start)
    if batch < 0:
        return start
    planned = Checkpoint(Path(source.checkpoint)).batch(batch)
    feed = planned.offsets[0]
    offset: dict[str, Any] = start if feed == NO_OFFSET else json.loads(feed)
    if not source.wall:
        return offset
    return {**offset, "time": max(offset["time"], planned.planned_ms * 1000)}
