"""Values of watermarks. A column without one has None, one that waits for its first row START, after the end of the
inputs END. A source that never had a row and is idle has IDLE: it holds back nobody."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

Mark = float | Literal["idle"] | None
START = -math.inf
END = math.inf
IDLE: Literal["idle"] = "idle"


def mapped(mark: Mark, by: Callable[[float], float]) -> Mark:
    """The mark of a monotone expression of a column."""
    return mark if mark is None or mark == IDLE or math.isinf(mark) else by(mark)


def least(marks: Iterable[Mark]) -> Mark:
    """The smallest; none if one has none; idle ones hold back nobody."""
    found = list(marks)
    if None in found:
        return None
    return min((mark for mark in found if mark != IDLE), default=IDLE)


def latest(mark: Mark, other: Mark) -> Mark:
    """The larger of two that both exist: a watermark never goes back."""
    if mark is None or mark == IDLE or (mark == START and other == IDLE):
        return other
    if other is None or other == IDLE:
        return mark
    return max(mark, other)


def is_below(value: int | None, mark: Mark) -> bool:
    return value is not None and mark is not None and mark != IDLE and value < mark


def has_reached(mark: Mark, value: float) -> bool:
    return mark is not None and mark != IDLE and mark >= value
