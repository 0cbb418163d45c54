"""The wall clock of a data folder: that of the machine, except that it never goes back."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from tidegate.core.durations import render_micros
from tidegate.errors import warning
from tidegate.storage.clock_file import read_clock
from tidegate.storage.step_log import StepLog

_log = logging.getLogger(__name__)

NOTEWORTHY_US = 1_000_000
SLOWNESS = 2
"""How much slower than that of the machine the clock is until the machine has caught up."""


class WallClock:
    """Tells the time to everything that stamps rows or steps of a folder. While the machine's clock is behind a time
    that was told, by this process or an earlier one, time passes at half its speed: what waits for it still happens,
    and the machine catches up."""

    def __init__(self, folder: Path, log: StepLog) -> None:
        self._folder, self._log = folder, log
        self._lock = threading.Lock()
        self._reached: int | None = None
        self._asked = 0
        self._warned = False

    def now_us(self) -> int:
        """Microseconds since 1970."""
        with self._lock:
            if self._reached is None:
                self._reached = int(read_clock(self._folder)["time"])
            reached = max(self._reached, self._log.header(self._log.last()).time_us)
            machine, asked = time.time_ns() // 1000, time.monotonic_ns()
            slowly = (asked - self._asked) // 1000 // SLOWNESS if self._asked else 0
            self._asked = asked
            self._warn(reached - machine)
            self._reached = max(machine, reached + slowly)
            return self._reached

    def _warn(self, behind_us: int) -> None:
        """Say that the machine's clock was set back, once until it has caught up."""
        if behind_us > NOTEWORTHY_US and not self._warned:
            behind = render_micros(behind_us // NOTEWORTHY_US * NOTEWORTHY_US)
            noted = warning("CLOCK_BEHIND", behind=behind)
            _log.warning("%s: %s; %s", noted.code, noted.message, noted.hint)
            self._warned = True
        self._warned = self._warned and behind_us > 0
