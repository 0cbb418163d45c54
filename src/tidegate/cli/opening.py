"""Opening a database from the command line: Java first, then Spark, with a word for the one who waits."""

from __future__ import annotations

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
    if not folder.is_dir():
        from tidegate.errors import OptionError

        raise OptionError(
            "INVALID_OPTION",
            f"there is no data folder {folder}",
            hint="`tidegate run FILE.sql` makes one, by default ./<stem of FILE>",
        )
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
    from rich.console import Console

    with Console(stderr=True).status("starting Spark ..."):
        import tidegate

        return tidegate.connect(str(folder), **options) if folder else tidegate.connect(**options)
