"""The clock as a file: the driver writes it, the feed reads it to plan the next micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tidegate.storage.documents import Document
from tidegate.storage.objects import LocalStorage, Storage

NAME = "clock.json"


@dataclass(frozen=True)
class ClockRecord:
    """`tick` counts the moves of the clock; `time` is the processing time in microseconds, `next` the one that is set
    for the next tick; `released` the number of entries of the insert log that may be read (None: all); `lines` the
    watermarks by name; `ended`: no more rows will come (True), or none after this many entries of the insert log."""

    tick: int
    time: int
    released: int | None
    lines: Mapping[str, int | float | str | None] = field(default_factory=dict)
    next: int | None = None
    ended: bool | int = False


START = ClockRecord(tick=0, time=0, released=0)


def document(storage: Storage) -> Document[ClockRecord]:
    return Document(storage, NAME, "clock", ClockRecord)


def read_clock(folder: Path) -> dict[str, Any]:
    """The clock of a data folder; the key `next` exists only if it is set."""
    record = document(LocalStorage(folder)).read()
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    return values if record.next is not None else {name: value for name, value in values.items() if name != "next"}


def write_clock(folder: Path, clock: Mapping[str, Any]) -> None:
    """Replaces the clock of a data folder, durably."""
    document(LocalStorage(folder)).write(ClockRecord(**clock))
