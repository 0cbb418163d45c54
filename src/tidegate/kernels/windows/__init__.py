"""Windows over time: where they begin and end (`grid`), and how what is kept of them is filed (`filing`)."""

from __future__ import annotations

from tidegate.ir.windows import WindowSpec
from tidegate.kernels.windows.filing import Filing
from tidegate.kernels.windows.grid import Exploded, Grid

__all__ = ["Exploded", "Filing", "Grid", "opened"]


def opened(spec: WindowSpec, time_us: int) -> tuple[int | None, int]:
    """The earliest start and the earliest end (microseconds) among the windows that end after a time. A session that
    is still open may have begun at any time, so it has no such start."""
    return (None, time_us + 1) if spec.kind == "session" else Grid(spec).opened(time_us)
