"""Opening a database from the command line: Java first, then Spark, with a word for the one who waits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.environment import require_java

if TYPE_CHECKING:
    from tidegate import Database


@contextmanager
def opened(folder: Path | None, **options: Any) -> Iterator[Database]:
    """A database that is closed whatever happens. `folder` None: a temporary one."""
    require_java()
    db = _connect(folder, {name: value for name, value in options.items() if value is not None})
    try:
        yield db
    finally:
        db.close()


@contextmanager
def opened_to_read(folder: Path) -> Iterator[Database]:
    """An existing pipeline's folder, read-only: also while another process runs it."""
    with opened(folder, read_only=True) as db:
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


def _connect(folder: Path | None, options: dict[str, Any]) -> Database:
    with _told("starting Spark ..."):
        import tidegate

        return tidegate.connect(str(folder), **options) if folder else tidegate.connect(**options)


@contextmanager
def _told(text: str) -> Iterator[None]:
    """Says why nothing happens yet, and takes it back: only on a terminal."""
    told = sys.stderr.isatty()
    if told:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if told:
            print("\r" + " " * len(text) + "\r", end="", file=sys.stderr, flush=True)
