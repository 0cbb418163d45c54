"""What the clock of a step decides about the rows of an interval join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.ir.joins import PROCTIME, IntervalJoinSpec
from tidegate.kernels.api import INFINITE, Clock
from tidegate.kernels.lines import Lines, line_micros
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.search import Mask

NEVER, FOREVER = -(1 << 62), 1 << 62
"""Below every time, and above."""


@dataclass(frozen=True)
class Limits:
    """Of one side, by the time of its rows: those below `due`, or that came before `waited`, leave by themselves if
    they meet none; those below `over` are forgotten; and those below `recalled` cannot be taken back any more."""

    due: int
    waited: int
    over: int
    recalled: int

    def leave(self, times: Ints, came: Ints | None) -> Mask:
        """Which rows do not wait any longer."""
        left: Mask = times < self.due
        return left if came is None else left | (came < self.waited)


def frontier(spec: IntervalJoinSpec, side: int, lines: Lines) -> int:
    """Below this no row of a side comes any more, by its line."""
    name = spec.watermarks[side]
    line = None if name is None else lines.get(name)
    if line == INFINITE:
        return FOREVER
    found = line_micros(line, spec.watermark_types[side] == "date")
    return NEVER if found is None else found


def limits(spec: IntervalJoinSpec, clock: Clock) -> tuple[Limits, Limits]:
    """What holds at the end of a step, when its rows have met: those of later steps are not below its lines."""
    if spec.proctime:
        now = clock.time_us
        return _by_the_clock(spec, now, 0), _by_the_clock(spec, now, 1)
    lines = frontier(spec, 0, clock.watermarks), frontier(spec, 1, clock.watermarks)
    return _by_lines(spec, clock, lines, 0), _by_lines(spec, clock, lines, 1)


def _by_lines(spec: IntervalJoinSpec, clock: Clock, lines: tuple[int, int], side: int) -> Limits:
    """A row that can be taken back is kept until that would be late. Then those that it has met are there as well: as
    long as it could come, they are kept."""
    unmet, due, waited = _moved(lines[1 - side], -_last(spec, side)), NEVER, NEVER
    if spec.early is not None and spec.early.mode == PROCTIME:
        waited = clock.time_us - spec.early.delay + 1
    elif spec.early is not None:
        due = _moved(min(lines), 1 - spec.early.delay)
    over = unmet if spec.append_only[side] else min(unmet, lines[side])
    return Limits(max(due, unmet), waited, over, NEVER)


def _by_the_clock(spec: IntervalJoinSpec, now: int, side: int) -> Limits:
    """A row can be taken back for as long as it can meet others, at least in the step in which it came. Until then
    those that it has met are kept, too."""
    last, unmet = [_last(spec, side), _last(spec, 1 - side)], now - _last(spec, side)
    due = unmet if spec.early is None else max(unmet, now - spec.early.delay + 1)
    recalled = now - max(last[0], 0)
    over = unmet if spec.append_only[side] else min(unmet, recalled)
    return Limits(due, NEVER, over if spec.append_only[1 - side] else min(over, unmet - max(last[1], 0)), recalled)


def _last(spec: IntervalJoinSpec, side: int) -> int:
    """How long after a row of a side the last one comes that it can meet."""
    return spec.upper if side == 0 else -spec.lower


def _moved(time: int, by: int) -> int:
    return time if time in (NEVER, FOREVER) else int(np.clip(time + by, NEVER, FOREVER))
