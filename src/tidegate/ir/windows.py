"""Windows of time, and the tests of rows against watermarks."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.durations import CalendarInterval


@dataclass(frozen=True)
class WatermarkTest:
    """True for rows whose `column` is below the watermark of that name (or equal to it, if `inclusive`). False for
    NULL, and while the watermark has no value. `delayed`: at the ingress of a view whose rows are released one step
    after the watermark that releases them has moved, so they are compared with what held before it moved."""

    column: str
    watermark: str
    inclusive: bool = False
    delayed: bool = False


@dataclass(frozen=True)
class WindowKind:
    """Properties of a kind of window. `overlapping`: a row can be in several windows. `shared_start`: several windows
    start at the same time, so that only the end identifies one."""

    overlapping: bool = False
    shared_start: bool = False


WINDOW_KINDS = {
    "tumble": WindowKind(),
    "hop": WindowKind(overlapping=True),
    "cumulate": WindowKind(overlapping=True, shared_start=True),
    "session": WindowKind(),
}


@dataclass(frozen=True)
class WindowSpec:
    """Windows `[start, end)` over the column `time` (timestamp, timestamp_ntz or date).

    `kind`: tumble (`size`), hop (`size`, every `slide`), cumulate (`size` in steps of `slide`), session (`size` is the
    gap, `slide` is None). Windows are aligned to the epoch plus `offset` microseconds, windows of months to the year
    1970. `type` is the Spark type of `time`: it determines the unit of its watermark and the type of `start` and `end`.
    """

    kind: str
    time: str
    size: CalendarInterval
    slide: CalendarInterval | None = None
    offset: int = 0
    start: str = "window_start"
    end: str = "window_end"
    type: str = "timestamp"
