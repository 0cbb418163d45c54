"""The length of durations, in every spelling."""

from __future__ import annotations

import pytest

from tests.sql.reading import expression
from tidegate.core.durations import CalendarInterval
from tidegate.sql.durations import length

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTERVAL '10' SECOND", CalendarInterval(10 * S)),
        ("INTERVAL 10 SECONDS", CalendarInterval(10 * S)),
        ("INTERVAL '10 s'", CalendarInterval(10 * S)),
        ("INTERVAL '1 minute 30 seconds'", CalendarInterval(90 * S)),
        ("INTERVAL '1:30' MINUTE TO SECOND", CalendarInterval(90 * S)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", CalendarInterval(93784 * S + 500_000)),
        ("INTERVAL '1:00' HOURS TO MINUTES", CalendarInterval(3600 * S)),
        ("INTERVAL '-1:30' MINUTE TO SECOND", CalendarInterval(-90 * S)),
        ("INTERVAL '1-6' YEAR TO MONTH", CalendarInterval(months=18)),
        ("INTERVAL '0.5' SECOND", CalendarInterval(500_000)),
        ("INTERVAL '250' MILLISECOND", CalendarInterval(250_000)),
        ("INTERVAL '1' WEEK", CalendarInterval(7 * 86400 * S)),
        ("INTERVAL '1' MONTH", CalendarInterval(months=1)),
        ("INTERVAL '2' QUARTERS", CalendarInterval(months=6)),
        ("INTERVAL 1 YEAR", CalendarInterval(months=12)),
        ("INTERVAL '-5' MINUTE", CalendarInterval(-300 * S)),
        ("INTERVAL -5 MINUTE", CalendarInterval(-300 * S)),
        ("-INTERVAL '5' MINUTE", CalendarInterval(-300 * S)),
        ("INTERVAL '1' HOUR + INTERVAL '5' MINUTE", CalendarInterval(3900 * S)),
        ("(INTERVAL '1' HOUR - INTERVAL '5' MINUTE)", CalendarInterval(3300 * S)),
        ("INTERVAL 1 DAY 2 HOURS", CalendarInterval(26 * 3600 * S)),
        ("'10 seconds'", CalendarInterval(10 * S)),
        ("'1 hour 30 minutes'", CalendarInterval(5400 * S)),
        ("'interval 5 minutes'", CalendarInterval(300 * S)),
        ("1h30m", CalendarInterval(5400 * S)),
        ("500ms", CalendarInterval(500_000)),
        ("10s", CalendarInterval(10 * S)),
        ("5m", CalendarInterval(300 * S)),
        ("2d", CalendarInterval(2 * 86400 * S)),
    ],
)
def test_length(text: str, expected: CalendarInterval) -> None:
    assert length(expression(text)) == expected


@pytest.mark.parametrize("text", ["10", "ts", "'ten seconds'", "''", "a.b", "size + INTERVAL '1' DAY", "NULL"])
def test_no_length(text: str) -> None:
    assert length(expression(text)) is None
