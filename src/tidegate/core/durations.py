"""Durations as text: one parser for options, settings, hints, spec files and the command line.

A duration is a sequence of numbers with units: `10s`, `10 seconds`, `5 min`, `500ms`, `1h30m`, `1 hour 30 minutes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

SECOND = 1_000_000
DAY = 86_400 * SECOND
MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3_600 * SECOND,
    "DAY": DAY,
    "WEEK": 7 * DAY,
}
"""Units of a fixed length, in microseconds."""
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of the calendar, in months."""
_SHORT = {
    "us": "MICROSECOND",
    "micro": "MICROSECOND",
    "ms": "MILLISECOND",
    "milli": "MILLISECOND",
    "s": "SECOND",
    "sec": "SECOND",
    "m": "MINUTE",
    "min": "MINUTE",
    "h": "HOUR",
    "hr": "HOUR",
    "d": "DAY",
    "w": "WEEK",
    "mon": "MONTH",
    "y": "YEAR",
    "yr": "YEAR",
}
EXPECTED = "a duration such as '10s', '5 min' or '1h30m'"
EXPECTED_POSITIVE = "a duration above zero, such as '10s', '5 min' or '1h30m'"
_PART = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
_INTERVAL = re.compile(r"\s*interval\s+")
_UNITS_BY_SIZE = ((DAY, "d"), (3_600 * SECOND, "h"), (60 * SECOND, "m"), (SECOND, "s"), (1_000, "ms"), (1, "us"))


@dataclass(frozen=True)
class CalendarInterval:
    """A length of time. Months follow the calendar, so they are kept apart from microseconds."""

    micros: int = 0
    months: int = 0


def unit_of(word: str) -> str | None:
    """The unit that a word names, in the singular and in capitals: `min`, `MINUTES` -> `MINUTE`."""
    folded = word.lower()
    for name in (folded, folded.removesuffix("s")):
        unit = _SHORT.get(name, name.upper())
        if unit in MICROS or unit in MONTHS:
            return unit
    return None


def split_parts(text: str) -> list[tuple[Decimal, str]] | None:
    """Numbers and units of a duration: `1h 30 min` -> 1 HOUR, 30 MINUTE. None if the text is not a duration."""
    rest = _INTERVAL.sub("", text.lower(), count=1) if _INTERVAL.match(text.lower()) else text.lower()
    parts = []
    while rest:
        match = _PART.match(rest)
        unit = unit_of(match[3]) if match else None
        if match is None or unit is None:
            return None
        parts.append((Decimal(match[1] + match[2]), unit))
        rest = rest[match.end() :]
    return parts or None


def parse_length(text: str) -> CalendarInterval | None:
    """The length of a duration, which may be negative and may have months. None if the text is not a duration."""
    parts = split_parts(text)
    if parts is None:
        return None
    micros = sum(int(number * MICROS[unit]) for number, unit in parts if unit in MICROS)
    months = sum(int(number * MONTHS[unit]) for number, unit in parts if unit in MONTHS)
    return CalendarInterval(micros, months)


def parse_micros(text: str) -> int | None:
    """A fixed duration in microseconds. None for text that is not a duration, has a minus sign, or counts months."""
    parts = split_parts(text)
    if parts is None or any(number.is_signed() or unit in MONTHS for number, unit in parts):
        return None
    return sum(int(number * MICROS[unit]) for number, unit in parts)


def parse_duration(text: str) -> timedelta:
    """A fixed duration. Raises ValueError for anything else."""
    micros = parse_micros(text)
    if micros is None:
        raise ValueError(text)
    return timedelta(microseconds=micros)


def parse_positive(text: str) -> timedelta:
    """A fixed duration above zero. Raises ValueError for anything else."""
    duration = parse_duration(text)
    if not duration:
        raise ValueError(text)
    return duration


def render_length(length: CalendarInterval) -> str:
    """A length as text: `1h30m`, `2 months`."""
    months = f"{length.months} months" if length.months else ""
    rest = render_micros(length.micros) if length.micros or not months else ""
    return " ".join(part for part in (months, rest) if part)


def render_micros(micros: int) -> str:
    """Microseconds as the short text that options are written in: `1h30m`."""
    if micros == 0:
        return "0s"
    text, rest = "", abs(micros)
    for size, unit in _UNITS_BY_SIZE:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return "-" + text if micros < 0 else text
