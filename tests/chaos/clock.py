"""A wall clock of the pipeline's processes that can be moved while they run."""

from __future__ import annotations

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

SOURCE = Path(__file__).with_name("moved_clock.c")


class MovedClock:
    """`environment` are the variables of the processes that go by it; without a C compiler the clock stays true."""

    def __init__(self, folder: Path) -> None:
        self._file, library = folder / "clock-offset", folder / "moved_clock.so"
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.works = compiler is not None
        self.environment: dict[str, str] = {}
        if compiler is not None:
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
            self._file.write_bytes(bytes(8))
            self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._file)}

    def move(self, by: timedelta) -> None:
        """Move the clock away from the true one; by nothing, back to it."""
        with self._file.open("r+b") as file:
            file.write((by // timedelta(microseconds=1)).to_bytes(8, "little", signed=True))
