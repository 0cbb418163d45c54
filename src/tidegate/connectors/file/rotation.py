"""`events.jsonl` becomes `events.jsonl.1`, which becomes `events.jsonl.2`, ..."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.core.durable import sync_folder


def put_aside(path: Path, keep: int) -> None:
    """Can be done again after it was broken off anywhere: only names that are in the way move on."""
    if path.exists():
        if keep:
            _make_free(path, 1, keep)
            os.replace(path, numbered(path, 1))
        else:
            path.unlink()
        sync_folder(path.parent)


def numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _make_free(path: Path, number: int, keep: int) -> None:
    taken = numbered(path, number)
    if not taken.exists():
        return
    if number == keep:
        taken.unlink()
        return
    _make_free(path, number + 1, keep)
    os.replace(taken, numbered(path, number + 1))
