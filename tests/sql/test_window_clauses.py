"""What is said about time around a query, in every order users write it in."""

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
    found = query(f"{HEAD} {' '.join(order)}")
    assert found.emit is not None and found.emit.strategy == "on_watermark"
    assert found.allowed_lateness is not None and render(found.allowed_lateness) == "INTERVAL '1' MINUTE"
    assert found.late_data_to is not None and found.late_data_to.text == "late"
    assert render(found.select) == f"{HEAD} GROUP BY a"


@pytest.mark.parametrize("order", list(permutations(WINDOW_PARTS)))
def test_window_clauses_in_any_order(order: tuple[str, ...]) -> None:
    found = query(f"{HEAD} {' '.join(order)}")
    said = clauses(found.select)
    assert said.window is not None and said.event_time is not None
    assert found.allowed_lateness is not None and found.emit is not None
    assert render(found.select) == f"{HEAD} GROUP BY a"


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
    found = query(f"{HEAD} {tail}")
    assert clauses(found.select).window is not None
    assert found.allowed_lateness is not None and length(found.allowed_lateness) is not None


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
    declared = next(each for each in source.columns if each.name.text == "ts")
    assert (declared.lateness is not None, declared.hold_back is not None) == (lateness, hold_back)
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
    found = one(Set, text)
    assert (found.name, found.value) == (name, value)
