"""The clock of a step, as a worker reads it: from Spark's write-ahead log, where it stood before the step began. So a
step that is run again sees the same time, and one without a new clock row still knows the last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from tidegate.kernels.api import Clock

NOTHING = "-"


@dataclass(frozen=True)
class ClockSource:
    """Where a generation's clocks are: the folder of its write-ahead log, the step before its first, the clock that it
    began with (JSON), and whether time is the wall's."""

    offsets: str
    base_step: int
    start: str
    wall: bool

    def now(self) -> Clock:
        """The clock of the step that this task belongs to."""
        return self.at(batch())

    def at(self, batch: int) -> Clock:
        return _clock(self, batch)


def batch() -> int:
    """The micro-batch that this task belongs to."""
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0)


@lru_cache(maxsize=8)
def _clock(source: ClockSource, batch: int) -> Clock:
    now, before = _offset(source, batch), _offset(source, batch - 1)
    return Clock(
        step=source.base_step + batch + 1,
        time_us=max(now["time"], before["time"]),
        lines=now.get("lines", {}),
        before=before.get("lines", {}),
        before_us=before["time"],
    )


@lru_cache(maxsize=8)
def _offset(source: ClockSource, batch: int) -> dict[str, Any]:
    """The feed's offset after a batch. In wall time a batch without a new clock has the time it was planned at."""
    start: dict[str, Any] = json.loads(source.start)
    if batch < 0:
        return start
    _, metadata, feed, *_ = (Path(source.offsets) / str(batch)).read_text().splitlines()
    found: dict[str, Any] = start if feed == NOTHING else json.loads(feed)
    if not source.wall:
        return found
    planned = int(json.loads(metadata)["batchTimestampMs"]) * 1000
    return {**found, "time": max(found["time"], planned)}
