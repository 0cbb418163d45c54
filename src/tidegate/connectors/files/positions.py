"""Which files have been read: what Spark's checkpoint remembers of a file stream, and what a new one must leave out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.connectors.contract import Position

_BATCH_FILE = re.compile(r"(\d+)(\.compact)?$")


def consumed(offset: str | None, log: Path, start: Position | None) -> Position:
    """The files of all batches up to the committed offset, and those that had been read before this checkpoint."""
    files = set(start["files"]) if start else set()
    if offset is not None:
        upto = int(json.loads(offset)["logOffset"])
        files |= {path_as_column(entry["path"]) for entry in _entries(log) if entry["batchId"] <= upto}
    return {"files": sorted(files)}


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    """Every file that Spark's log names. The newest compact file repeats all before it; older ones may be gone."""
    batches = {int(found[1]): path for path in log.iterdir() if (found := _BATCH_FILE.fullmatch(path.name))}
    for path in batches.values():
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"{path}: version {version} of Spark's file log is unknown")
        yield from (json.loads(line) for line in lines if line)


def path_as_column(path: str) -> str:
    """The log writes `file:///a/b`, the column `_metadata.file_path` says `file:/a/b`."""
    return re.sub(r"^file:/+", "file:/", path)
