"""How long durations are, in every way users write them."""

from __future__ import annotations

import pytest

from tests.sql.reading import expression
from tidegate.ir.specs import Length
from tidegate.sql.lengths import length

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTERVAL '10' SECOND", Length(10 * S)),
        ("INTERVAL 10 SECONDS", Length(10 * S)),
        ("INTERVAL '10 s'", Length(10 * S)),
        ("INTERVAL '1 minute 30 seconds'", Length(90 * S)),
        ("INTERVAL '1:30' MINUTE TO SECOND", Length(90 * S)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", Length(93784 * S + 500_000)),
        ("INTERVAL '1:00' HOURS TO MINUTES", Length(3600 * S)),
        ("INTERVAL '-1:30' MINUTE TO SECOND", Length(-90 * S)),
        ("INTERVAL '1-6' YEAR TO MONTH", Length(months=18)),
        ("INTERVAL '0.5' SECOND", Length(500_000)),
        ("INTERVAL '250' MILLISECOND", Length(250_000)),
        ("INTERVAL '1' WEEK", Length(7 * 86400 * S)),
        ("INTERVAL '1' MONTH", Length(months=1)),
        ("INTERVAL '2' QUARTERS", Length(months=6)),
        ("INTERVAL 1 YEAR", Length(months=12)),
        ("INTERVAL '-5' MINUTE", Length(-300 * S)),
        ("INTERVAL -5 MINUTE", Length(-300 * S)),
        ("-INTERVAL '5' MINUTE", Length(-300 * S)),
        ("INTERVAL '1' HOUR + INTERVAL '5' MINUTE", Length(3900 * S)),
        ("(INTERVAL '1' HOUR - INTERVAL '5' MINUTE)", Length(3300 * S)),
        ("INTERVAL 1 DAY 2 HOURS", Length(26 * 3600 * S)),
        ("'10 seconds'", Length(10 * S)),
        ("'1 hour 30 minutes'", Length(5400 * S)),
        ("'interval 5 minutes'", Length(300 * S)),
        ("1h30m", Length(5400 * S)),
        ("500ms", Length(500_000)),
        ("10s", Length(10 * S)),
        ("5m", Length(300 * S)),
        ("2d", Length(2 * 86400 * S)),
    ],
)
def test_length(text: str, expected: Length) -> None:
    assert length(expression(text)) == expected


@pytest.mark.parametrize("text", ["10", "ts", "'ten seconds'", "''", "a.b", "size + INTERVAL '1' DAY", "NULL"])
def test_no_length(text: str) -> None:
    assert length(expression(text)) is None
