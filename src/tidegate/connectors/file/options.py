"""Options of `INTO FILE (...)`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tidegate.connectors.contract import SinkSpec
from tidegate.core.options import Bag, checked_format, parse_size
from tidegate.errors import make

FORMATS = ("json", "ops")
MAX_SIZE = 100 * 1024**2
KEEP = 5


@dataclass(frozen=True)
class WriteOptions:
    """Where lines go, and when the file is put aside for a new one: before it is larger than `max_size` bytes, or when
    its first line is `rotate_every` old. `keep` of those put aside stay."""

    path: Path
    format: str
    max_size: int = MAX_SIZE
    rotate_every: timedelta | None = None
    keep: int = KEEP


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    at = bag.span_of("path")
    path = Path(bag.required("path", "events.jsonl"))
    if path.is_dir() or not path.name:
        message = f"{path} is a folder, and FILE writes one file"
        hint = f"write path = '{path / 'events.jsonl'}', or INTO FILES for a file per step"
        raise make("INVALID_OPTION", message=message, hint=hint, span=at)
    return WriteOptions(
        path=path,
        format=checked_format(bag, spec.format, FORMATS, "json"),
        max_size=bag.take("max_size", _some_bytes, "a size such as '100mb'", MAX_SIZE) or MAX_SIZE,
        rotate_every=bag.positive_duration("rotate_every"),
        keep=bag.take("keep", _count, "a whole number from 0", KEEP) or 0,
    )


def _some_bytes(text: str) -> int:
    if not (found := parse_size(text)):
        raise ValueError(text)
    return found


def _count(text: str) -> int:
    if (found := int(text)) < 0:
        raise ValueError(text)
    return found
