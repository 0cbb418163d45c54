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


class WallClock:
    """Tells the time to everything that stamps rows or steps of a folder. While the machine's clock is behind a time
    that was told, by this process or an earlier one, that time stands still."""

    def __init__(self, folder: Path, log: StepLog) -> None:
        self._folder, self._log = folder, log
        self._lock = threading.Lock()
        self._reached: int | None = None
        self._warned = False

    def now_us(self) -> int:
        """Microseconds since 1970."""
        with self._lock:
            if self._reached is None:
                self._reached = int(read_clock(self._folder)["time"])
            reached = max(self._reached, self._log.header(self._log.last()).time_us)
            machine = time.time_ns() // 1000
            self._warn(reached - machine)
            self._reached = max(machine, reached)
            return self._reached

    def _warn(self, behind_us: int) -> None:
        """Say that the machine's clock was set back, once until it has caught up."""
        if behind_us > NOTEWORTHY_US and not self._warned:
            behind = render_micros(behind_us // NOTEWORTHY_US * NOTEWORTHY_US)
            noted = warning("CLOCK_BEHIND", behind=behind)
            _log.warning("%s: %s; %s", noted.code, noted.message, noted.hint)
            self._warned = True
        self._warned = self._warned and behind_us > 0
