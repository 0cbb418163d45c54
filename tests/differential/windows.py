"""Windows of a time, one by one."""

from __future__ import annotations

import math

from tests.differential.pipeline import Window

Span = tuple[int, int]


def windows_of(time: int, window: Window) -> list[Span]:
    """Every window [start, end) that contains the time, the earliest first."""
    match window.kind:
        case "TUMBLE":
            [size] = window.sizes
            start = _floor(time, size, window.offset)
            return [(start, start + size)]
        case "HOP":
            slide, size = window.sizes
            start = _floor(time, slide, window.offset)
            starts = []
            while start + size > time:
                starts.append(start)
                start -= slide
            return [(start, start + size) for start in reversed(starts)]
        case "CUMULATE":
            step, size = window.sizes
            start = _floor(time, size, window.offset)
            return [(start, end) for end in range(start + step, start + size + 1, step) if end > time]
    raise ValueError(window.kind)


def earliest_open(watermark: float, window: Window) -> Span:
    """The first window that ends after the watermark."""
    return windows_of(math.floor(watermark), window)[0]


def sessions_of(times: list[int], gap: int) -> list[list[int]]:
    """Runs of times less than the gap apart."""
    runs: list[list[int]] = []
    for time in sorted(times):
        if runs and time - runs[-1][-1] < gap:
            runs[-1].append(time)
        else:
            runs.append([time])
    return runs


def _floor(time: int, size: int, offset: int) -> int:
    return (time - offset) // size * size + offset
