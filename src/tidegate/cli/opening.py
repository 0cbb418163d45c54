"""Opening a database from the command line, with a word for the one who waits for Spark."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate import Database


@contextmanager
def opened(
    folder: Path | None, *, master: str | None = None, read_only: bool = False, spark: bool = True
) -> Iterator[Database]:
    """A database that is closed whatever happens. `folder` None: a temporary one. `spark`: started at once."""
    import tidegate
    from tidegate.database import runtime_of

    with tidegate.connect(folder, master=master, read_only=read_only) as db:
        if spark:
            with told("starting Spark ..."), shielded():
                _ = runtime_of(db).spark.session
        yield db


def read_script(path: Path) -> str:
    """The text of a SQL file."""
    from tidegate.errors import OptionError

    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise OptionError("INVALID_OPTION", f"cannot read {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise OptionError("INVALID_OPTION", f"cannot read {path}: it is not UTF-8 text") from problem


@contextmanager
def shielded() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, for they inherit that it is blocked. A terminal sends it to all of a
    command's processes, and a Python worker of Spark would die of it in the middle of a step."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def told(text: str) -> Iterator[None]:
    """Says why nothing happens yet, and takes it back: only on a terminal."""
    told = sys.stderr.isatty()
    if told:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if told:
            print("\r" + " " * len(text) + "\r", end="", file=sys.stderr, flush=True)
