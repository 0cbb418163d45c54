"""Every spelling of a window is normalised to the columns `window_start` and `window_end` and a window call."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.sql.reading import query
from tidegate.sql import length, render
from tidegate.sql.window_spellings import normalise_windows, window_tables
from tidegate.sql.windows import WindowCall, table_window


def _normalise(text: str) -> tuple[str, WindowCall | None]:
    select = query(text).select
    assert isinstance(select, exp.Select)
    normalised = normalise_windows(select)
    return render(normalised.select).replace("`", ""), normalised.window


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT TUMBLE_START(ts, 10s), TUMBLE_END(), COUNT(*) FROM t GROUP BY TUMBLE(ts, 10s), a",
            "SELECT window_start, window_end, COUNT(*) FROM t GROUP BY window_start, window_end, a",
        ),
        (
            "SELECT TUMBLE_ROWTIME(ts, 10s) FROM t GROUP BY TUMBLE(ts, 10s)",
            "SELECT (window_end - INTERVAL '1' MILLISECOND) AS window_time FROM t GROUP BY window_start, window_end",
        ),
        (
            "SELECT TUMBLE_END(t.ts, '1 minute') FROM t GROUP BY TUMBLE(ts, INTERVAL '60' SECONDS)",
            "SELECT window_end FROM t GROUP BY window_start, window_end",
        ),
        (
            "SELECT SLIDE_START() FROM t GROUP BY HOP(ts, 5s, 10s)",
            "SELECT window_start FROM t GROUP BY window_start, window_end",
        ),
        (
            "SELECT window.start, window.end AS e, window FROM t GROUP BY window(ts, '1 hour') ORDER BY window.start",
            "SELECT window_start AS start, window_end AS e, "
            "named_struct('start', window_start, 'end', window_end) AS window FROM t "
            "GROUP BY window_start, window_end ORDER BY window_start",
        ),
        (
            "SELECT session_window(ts, '5 minutes') AS s, COUNT(*) FROM t GROUP BY s, a",
            "SELECT named_struct('start', window_start, 'end', window_end) AS s, COUNT(*) FROM t "
            "GROUP BY window_start, window_end, a",
        ),
        (
            "SELECT window.* FROM t GROUP BY window(ts, '1 hour')",
            "SELECT window_start AS start, window_end AS end FROM t GROUP BY window_start, window_end",
        ),
        (
            "SELECT WINDOWSTART, a, COUNT(*) FROM t WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY a HAVING WINDOWEND > b",
            "SELECT window_start AS WINDOWSTART, a, COUNT(*) FROM t "
            "GROUP BY a, window_start, window_end HAVING window_end > b",
        ),
        ("SELECT COUNT(*) FROM t SESSION WINDOW 5m", "SELECT COUNT(*) FROM t GROUP BY window_start, window_end"),
        ("SELECT * FROM t TUMBLING WINDOW 5m", "SELECT * FROM t"),
        (
            "SELECT window_time, COUNT(*) FROM TUMBLE(t, ts, '10 s') GROUP BY window_start, window_end, window_time",
            "SELECT (window_end - INTERVAL '1' MILLISECOND) AS window_time, COUNT(*) FROM TUMBLE(t, ts, '10 s') "
            "GROUP BY window_start, window_end, (window_end - INTERVAL '1' MILLISECOND)",
        ),
        (
            "SELECT w.window_start FROM TUMBLE(t, ts, INTERVAL '1' DAY) w GROUP BY w.window_start",
            "SELECT w.window_start FROM TUMBLE(t, ts, INTERVAL '1' DAY) AS w GROUP BY w.window_start, w.window_end",
        ),
        (
            "SELECT window_start FROM CUMULATE(t, ts, INTERVAL '1' HOUR, INTERVAL '1' DAY) GROUP BY 1",
            "SELECT window_start FROM CUMULATE(t, ts, INTERVAL '1' HOUR, INTERVAL '1' DAY) GROUP BY window_start",
        ),
    ],
)
def test_spellings(text: str, expected: str) -> None:
    assert _normalise(text)[0] == expected


def test_a_select_without_windows_is_not_changed() -> None:
    select = query("SELECT window_start, window_time, window.start FROM v GROUP BY window_start").select
    assert isinstance(select, exp.Select) and normalise_windows(select).select is select


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("GROUP BY TUMBLE(ts, 1h)", "tumble"),
        ("GROUP BY SLIDE(ts, 10m, 1h)", "hop"),
        ("GROUP BY window(ts, '1 hour')", "tumble"),
        ("GROUP BY window(ts, '1 hour', '10 minutes', '5 minutes')", "hop"),
        ("GROUP BY CUMULATE(ts, 10m, 1h)", "cumulate"),
        ("GROUP BY SESSION(ts, 1h)", "session"),
        ("WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)", "hop"),
        ("SLIDING WINDOW 1h SLIDE 10m", "hop"),
    ],
)
def test_kinds_and_sizes(text: str, kind: str) -> None:
    window = _normalise(f"SELECT COUNT(*) FROM t {text}")[1]
    assert window is not None and window.kind == kind
    size = length(window.size)
    assert size is not None and size.micros == 3_600_000_000
    slide = length(window.slide) if window.slide is not None else None
    assert (slide is not None and slide.micros == 600_000_000) == (kind in ("hop", "cumulate"))


@pytest.mark.parametrize(
    "text",
    [
        "TABLE(SESSION(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "TABLE(SESSION(TABLE t PARTITION BY (a), DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "TABLE(SESSION(DATA => TABLE t PARTITION BY a, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' HOUR))",
        "TABLE(SESSION(GAP => INTERVAL '1' HOUR, TIMECOL => DESCRIPTOR(ts), DATA => TABLE t PARTITION BY a))",
        "SESSION(t PARTITION BY a, ts, INTERVAL '1' HOUR)",
    ],
)
def test_sessions_with_a_partition(text: str) -> None:
    (table,) = window_tables(query(f"SELECT * FROM {text}").select)  # type: ignore[arg-type]
    relation, window = table_window(table)
    assert render(relation) == "t" and window.kind == "session"
    assert [render(tree) for tree in window.partition or ()] == ["a"]
    assert window.time is not None and render(window.time) == "ts" and render(window.size) == "INTERVAL '1' HOUR"


@pytest.mark.parametrize(
    ("argument", "relation"),
    [
        ("t", "t"),
        ("TABLE t", "t"),
        ("system.errors", "system.errors"),
        ("(SELECT a FROM t)", "(SELECT a FROM t)"),
        ("TABLE (SELECT a FROM t)", "(SELECT a FROM t)"),
        ("TABLE(HOP(TABLE t, DESCRIPTOR(ts), a, b))", "HOP(t, ts, a, b)"),
    ],
)
def test_the_relation_of_a_window(argument: str, relation: str) -> None:
    (table,) = window_tables(query(f"SELECT * FROM TUMBLE({argument}, ts, 10s)").select)  # type: ignore[arg-type]
    assert render(table_window(table)[0]) == relation
