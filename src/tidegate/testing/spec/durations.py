"""Durations as spec files and options write them: `500ms`, `10s`, `1h30m`."""

from __future__ import annotations

import re

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def millis(text: str) -> int | None:
    """`1h30m` is 5 400 000; None if the text is no duration."""
    parts = re.findall(r"(\d+)(ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(int(number) * UNITS[unit] for number, unit in parts)
