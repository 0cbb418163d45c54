"""The clock file: processing time, watermarks, and how far the insert log may be read. The feed follows it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.spark.watermark_tracker import WatermarkTracker
from tidegate.storage.clock_file import read_clock, write_clock
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.step_log import StepLog
from tidegate.storage.wall_clock import WallClock


class ProcessingClock:
    """Moves the clock of a pipeline, durably. Without a `wall` clock, it is virtual. `tracker` knows the watermarks
    while a query runs."""

    def __init__(self, path: Path, inserts: InsertLog, log: StepLog, wall: WallClock | None) -> None:
        self._path, self._inserts, self._log, self._wall = path, inserts, log, wall
        self.lock = threading.RLock()
        self.tracker: WatermarkTracker | None = None

    def tick(self) -> None:
        """Move the clock: the next micro-batch reaches every op that waits for time."""
        with self.lock:
            self._write(self._tick(self.read()))

    def set_time(self, time_us: int) -> None:
        """Move the virtual clock. A pipeline that runs step by step sees it with the rows of its next step."""
        with self.lock:
            self._apply({**self.read(), "next": time_us})

    def end(self) -> None:
        """End all inputs after the rows that were given so far: then every watermark goes to infinity."""
        with self.lock:
            if self.read()["ended"] is not True:
                self._apply({**self.read(), "ended": self._inserts.head()})

    def finish_end(self, read: int | None = None) -> bool:
        """Let the end take effect if all rows before it are processed: those of `read` entries of the insert log, or
        (None) all. True if it does."""
        with self.lock:
            clock = self.read()
            if not is_ending(clock) or (read is not None and read < clock["ended"]):
                return False
            self._write(self._tick({**clock, "ended": True}))
            return True

    def _apply(self, clock: dict[str, Any]) -> None:
        """Let a change of the clock take effect at once, or with the rows of the next release."""
        self._write(self._tick(clock) if clock.get("released") is None else clock)

    def _tick(self, clock: dict[str, Any]) -> dict[str, Any]:
        watermarks = clock.get("lines", {})
        with self._inserts.lock:
            now = self._wall.now_us() if self._wall else clock.get("next", clock["time"])
            unread = self._unread()
        if self.tracker is not None:
            if clock.get("ended") is True and not self.tracker.progress.ending:
                self.tracker.end()
            watermarks = self.tracker.tick(watermarks, now, unread)
        others = {name: value for name, value in clock.items() if name != "next"}
        return {**others, "tick": clock["tick"] + 1, "time": now, "lines": watermarks}

    def _unread(self) -> bool:
        """True if an entry exists that no step has read. Events are stamped under the same lock as this is asked, so no
        later event is behind the moment of asking."""
        return self._inserts.head() > self._log.header(self._log.last()).entry

    def publish(self) -> None:
        """Put watermarks that have moved on the clock, which causes the next micro-batch."""
        assert self.tracker is not None
        with self.lock:
            clock = self.read()
            if {**clock.get("lines", {}), **self.tracker.watermarks} != clock.get("lines", {}):
                self.tick()

    def release(self, entries: int | None) -> None:
        """Let the pipeline read this many entries of the insert log, and the changes of the clock so far; None: all
        entries as they come."""
        with self.lock:
            clock = self.read()
            moves = "next" in clock or (entries is None and is_ending(clock))
            if moves or clock.get("released") != entries:
                released = {**clock, "released": entries}
                self._write(self._tick(released) if moves else released)

    def release_own(self) -> None:
        """Release entries that the pipeline itself has appended: they belong to the present step."""
        with self.lock:
            if self.read().get("released") is not None:
                self._write({**self.read(), "released": self._inserts.head()})

    def read(self) -> dict[str, Any]:
        return read_clock(self._path.parent)

    def next_us(self) -> int:
        """Processing time of the next step, in microseconds since 1970."""
        clock = self.read()
        return int(clock.get("next", clock["time"]))

    def _write(self, clock: dict[str, Any]) -> None:
        write_clock(self._path.parent, clock)


def is_ending(clock: Mapping[str, Any]) -> bool:
    """True if the inputs are to end, but rows that come before their end may not be processed yet."""
    return not isinstance(clock["ended"], bool)
