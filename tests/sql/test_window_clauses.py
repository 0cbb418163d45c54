"""The time clauses around a query, in any order."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.sql.reading import one, query
from tidegate.sql import clauses, length, render
from tidegate.sql.statements import CreateRelation, CreateView, Set

HEAD = "SELECT a, COUNT(*) FROM t"
PARTS = ("EMIT ON WATERMARK", "ALLOWED LATENESS INTERVAL '1' MINUTE", "LATE DATA TO late", "GROUP BY a")
WINDOW_PARTS = ("EVENT TIME BY ts", "TUMBLING WINDOW 5m", "ALLOW LATENESS 1m", "GROUP BY a", "EMIT CHANGES")
VIEW_PARTS = ("WITH ('max_groups' = '3')", "AS SELECT a FROM t WHERE a > 1 ALLOWED LATENESS 5s EMIT CHANGES")


@pytest.mark.parametrize(
    "order", list(permutations(PARTS)), ids=lambda order: " ".join(part.split()[0] for part in order)
)
def test_clauses_of_a_query_in_any_order(order: tuple[str, ...]) -> None:
    parsed = query(f"{HEAD} {' '.join(order)}")
    assert parsed.emit is not None and parsed.emit.strategy == "on_watermark"
    assert parsed.allowed_lateness is not None and render(parsed.allowed_lateness) == "INTERVAL '1' MINUTE"
    assert parsed.late_data_to is not None and parsed.late_data_to.text == "late"
    assert render(parsed.select) == f"{HEAD} GROUP BY a"


@pytest.mark.parametrize("order", list(permutations(WINDOW_PARTS)))
def test_window_clauses_in_any_order(order: tuple[str, ...]) -> None:
    parsed = query(f"{HEAD} {' '.join(order)}")
    select_clauses = clauses(parsed.select)
    assert select_clauses.window is not None and select_clauses.event_time is not None
    assert parsed.allowed_lateness is not None and parsed.emit is not None
    assert render(parsed.select) == f"{HEAD} GROUP BY a"


@pytest.mark.parametrize(
    "tail",
    [
        "WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES, GRACE PERIOD 10 SECONDS) WHERE b > 1 GROUP BY a",
        "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 SECONDS) GROUP BY a HAVING COUNT(*) > 1 EMIT FINAL",
        "WINDOW SESSION (1 HOUR, GRACE PERIOD 10 SECONDS) GROUP BY a EMIT CHANGES",
        "WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 10 SECONDS) GROUP BY a EMIT CHANGES",
    ],
)
def test_ksql_windows_before_where(tail: str) -> None:
    parsed = query(f"{HEAD} {tail}")
    assert clauses(parsed.select).window is not None
    assert parsed.allowed_lateness is not None and length(parsed.allowed_lateness) is not None


@pytest.mark.parametrize("order", list(permutations(VIEW_PARTS)))
def test_options_of_a_view_before_and_after_its_query(order: tuple[str, ...]) -> None:
    view = one(CreateView, f"CREATE MATERIALIZED VIEW v {' '.join(order)}")
    assert [option.key for option in view.options] == ["max_groups"]
    assert view.query.allowed_lateness is not None and view.query.emit is not None


@pytest.mark.parametrize(
    ("column", "lateness", "hold_back", "watermarks"),
    [
        ("ts TIMESTAMP LATENESS INTERVAL '1' HOUR", True, False, 0),
        ("ts TIMESTAMP NOT NULL LATENESS INTERVAL '1:00' HOURS TO MINUTES", True, False, 0),
        ("ts TIMESTAMP LATENESS INTERVAL '1' HOUR NOT NULL", True, False, 0),
        ("ts TIMESTAMP WATERMARK INTERVAL '1' HOUR LATENESS INTERVAL '2' HOURS", True, True, 0),
        ("ts TIMESTAMP LATENESS INTERVAL '2' HOURS WATERMARK INTERVAL '1' HOUR", True, True, 0),
        ("ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND", False, False, 1),
        ("ts TIMESTAMP, WATERMARK FOR ts", False, False, 1),
        ("ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL '5' SECOND", False, False, 1),
        ("ts TIMESTAMP LATENESS 5s, WATERMARK FOR ts", True, False, 1),
    ],
)
def test_times_of_columns(column: str, lateness: bool, hold_back: bool, watermarks: int) -> None:
    source = one(CreateRelation, f"CREATE SOURCE s (a INT, {column})")
    parsed = next(each for each in source.columns if each.name.text == "ts")
    assert (parsed.lateness is not None, parsed.hold_back is not None) == (lateness, hold_back)
    assert len(source.watermarks) == watermarks


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET 'table.exec.emit.early-fire.enabled' = 'true'", "table.exec.emit.early-fire.enabled", "true"),
        ("SET 'table.exec.emit.early-fire.delay' = '5 s'", "table.exec.emit.early-fire.delay", "5 s"),
        ("SET table.exec.emit.early-fire.enabled = true", "table.exec.emit.early-fire.enabled", "true"),
    ],
)
def test_flinks_early_fire_settings(text: str, name: str, value: str) -> None:
    statement = one(Set, text)
    assert (statement.name, statement.value) == (name, value)
