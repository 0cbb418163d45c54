"""Durations are parsed alike wherever users write one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from types import SimpleNamespace

import pytest
import typer

from tests.sql.reading import expression, query
from tidegate.bind.context import Context
from tidegate.bind.joins.hint import early_fire
from tidegate.catalog import options as catalog_options
from tidegate.cli.main import seconds
from tidegate.core.durations import CalendarInterval, parse_length, render_length
from tidegate.core.options import Bag
from tidegate.errors import Error, Span
from tidegate.sql.durations import length
from tidegate.testing.spec import model
from tidegate.testing.spec.parser import parse as parse_spec

US = timedelta(microseconds=1)
HOUR = 3_600_000_000

ACCEPTED = {
    "10s": 10_000_000,
    "10 s": 10_000_000,
    "10 sec": 10_000_000,
    "10 seconds": 10_000_000,
    "1 second": 1_000_000,
    "10S": 10_000_000,
    " 10s ": 10_000_000,
    "5m": 300_000_000,
    "5min": 300_000_000,
    "5 min": 300_000_000,
    "5 mins": 300_000_000,
    "5 MINUTES": 300_000_000,
    "500ms": 500_000,
    "500 milliseconds": 500_000,
    "1h30m": HOUR * 3 // 2,
    "1h 30m": HOUR * 3 // 2,
    "1 hour 30 minutes": HOUR * 3 // 2,
    "1.5h": HOUR * 3 // 2,
    "1 hr": HOUR,
    "1500us": 1_500,
    "2d": 48 * HOUR,
    "2 days": 48 * HOUR,
    "1w": 168 * HOUR,
}
REFUSED = ("10", "", "s", "soon", "ten seconds", "1h x", "1h-30m", "-1s", "10 parsecs", "1h30", "PT10S", "1 month")


def connector_option(text: str) -> int:
    micros = Bag("X", [("wait", text, None)]).duration("wait")
    assert micros is not None
    return micros // US


def positive_option(text: str) -> int:
    micros = Bag("X", [("wait", text, None)]).positive_duration("wait")
    assert micros is not None
    return micros // US


def relation_option(text: str) -> int:
    option = SimpleNamespace(key="idle_timeout", value=text, span=Span(0, 1))
    (_, value), *_ = catalog_options.accept([option], "source")
    delay = parse_length(value)
    assert delay is not None
    return delay.micros


def clause(text: str) -> int:
    emit = query(f"SELECT a FROM t EMIT EVERY '{text}'").emit
    assert emit is not None and emit.interval is not None
    every = length(emit.interval)
    assert every is not None
    if every.months:
        raise ValueError(text)
    return every.micros


def hint(text: str) -> int:
    select = query(f"SELECT /*+ EARLY_FIRE('delay' = '{text}') */ a FROM t").select
    early = early_fire(select, Context.__new__(Context))
    assert early is not None
    return early.delay


def window_size(text: str) -> int:
    size = length(expression(f"'{text}'"))
    if size is None or size.months or size.micros <= 0:
        raise ValueError(text)
    return size.micros


def spec_clock(text: str) -> int:
    (item,) = parse_spec(f"# t\nclock +{text.strip()}").items
    assert isinstance(item, model.Clock)
    return item.micros


def command_line(text: str) -> int:
    return round(seconds(text) * 1_000_000)


ENTRIES: tuple[Callable[[str], int], ...] = (
    connector_option,
    positive_option,
    relation_option,
    clause,
    hint,
    window_size,
    spec_clock,
    command_line,
)


EXCEPTIONS = {
    (command_line, "10"): 10_000_000,
    (window_size, "1h-30m"): HOUR // 2,
}
"""Bare numbers on the command line are seconds, and the size of a window can be any interval that Spark parses."""


def cases(texts: Iterable[str]) -> list[tuple[Callable[[str], int], str]]:
    return [(entry, text) for entry in ENTRIES for text in texts if (entry, text) not in EXCEPTIONS]


@pytest.mark.parametrize(("entry", "text"), cases(ACCEPTED))
def test_every_entry_reads_the_same(entry: Callable[[str], int], text: str) -> None:
    assert entry(text) == ACCEPTED[text]


@pytest.mark.parametrize(("entry", "text"), cases(REFUSED))
def test_every_entry_rejects_the_same(entry: Callable[[str], int], text: str) -> None:
    with pytest.raises((Error, ValueError, model.SpecSyntaxError, typer.BadParameter)):
        entry(text)


def test_exceptions() -> None:
    assert {(entry, text): entry(text) for entry, text in EXCEPTIONS} == EXCEPTIONS


@pytest.mark.parametrize("entry", [positive_option, relation_option])
def test_zero_is_rejected_where_a_positive_duration_is_required(entry: Callable[[str], int]) -> None:
    with pytest.raises(Error, match="expected a duration above zero, such as '10s', '5 min' or '1h30m'"):
        entry("0s")


@pytest.mark.parametrize("entry", [connector_option, hint])
def test_error_messages_have_the_same_examples(entry: Callable[[str], int]) -> None:
    with pytest.raises(Error, match="a duration such as '10s', '5 min' or '1h30m'"):
        entry("soon")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-5 s", CalendarInterval(-5_000_000)),
        ("interval 5 minutes", CalendarInterval(300_000_000)),
        ("2 quarters", CalendarInterval(months=6)),
        ("1y 2mon", CalendarInterval(months=14)),
        ("1 month 2 days", CalendarInterval(48 * HOUR, 1)),
        ("2 fortnights", None),
    ],
)
def test_lengths_may_be_negative_and_count_months(text: str, expected: CalendarInterval | None) -> None:
    assert parse_length(text) == expected


@pytest.mark.parametrize("micros", [0, 1, 999, 1_000, 59_000_000, HOUR * 3 // 2, 48 * HOUR + 1, -HOUR])
def test_rendered_lengths_are_parsed_to_the_same_value(micros: int) -> None:
    text = render_length(CalendarInterval(micros))
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    parsed = parse_length(text)
    assert parsed is not None and sign * parsed.micros == micros
