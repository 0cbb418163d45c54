"""Options of `INTO FILE (...)`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tidegate.core.option_models import POSITIVE_DURATION, OptionModel, Parsed, Spans
from tidegate.core.options import parse_size
from tidegate.errors import make

FORMATS = ("json", "ops")


def _size(text: str) -> int:
    if not (size := parse_size(text)):
        raise ValueError(text)
    return size


def _count(text: str) -> int:
    if (count := int(text)) < 0:
        raise ValueError(text)
    return count


class WriteOptions(OptionModel):
    """Where lines are written, and when the file is rotated."""

    path: Path = Field(description="The file; missing folders are created.", examples=["events.jsonl"])
    max_size: Annotated[int, Parsed(_size, "a size such as '100mb'")] = Field(
        100 * 1024**2, description="Size in bytes that a file exceeds only if one step alone does."
    )
    rotate_every: Annotated[timedelta | None, POSITIVE_DURATION] = Field(
        None, description="Age of the first line at which the file is rotated."
    )
    keep: Annotated[int, Parsed(_count, "a whole number from 0")] = Field(
        5, description="Number of rotated files kept."
    )

    def check(self, spans: Spans) -> None:
        path = self.path
        if path.is_dir() or not path.name:
            message = f"{path} is a folder, and FILE writes one file"
            hint = f"write path = '{path / 'events.jsonl'}', or INTO FILES for a file per step"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["path"])
