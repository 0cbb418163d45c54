"""Open a database from the command line, with a status line while Spark starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.signals import shield_from_interrupt

if TYPE_CHECKING:
    from tidegate import Database


@contextmanager
def open_database(
    folder: Path | None,
    *,
    master: str | None = None,
    read_only: bool = False,
    skip_poison: bool = False,
    spark: bool = True,
) -> Iterator[Database]:
    """Open a database and close it at the end. `folder` None: a temporary one. `spark`: start Spark at once, not only
    when something needs it."""
    import tidegate
    from tidegate.database import runtime_of

    with tidegate.connect(folder, master=master, read_only=read_only, skip_poison=skip_poison) as db:
        connection = runtime_of(db).spark
        connection.starting = _starting
        if spark:
            _ = connection.session
        yield db


@contextmanager
def _starting() -> Iterator[None]:
    with status_line("starting Spark ..."), shield_from_interrupt():
        yield


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
def status_line(text: str) -> Iterator[None]:
    """Show a text on the terminal while the block runs."""
    terminal = sys.stderr.isatty()
    if terminal:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if terminal:
            print("\r" + " " * len(text) + "\r", end="", file=sys.stderr, flush=True)
