"""EMIT and the clauses around it."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.sql.reading import query, text_of
from tidegate.errors import Error
from tidegate.sql import clauses, hints, render
from tidegate.sql.emit import STRATEGIES

HEAD = "SELECT a, COUNT(*) FROM t GROUP BY a"


SPELLINGS = [
    ("ON WATERMARK", "on_watermark"),
    ("AFTER WATERMARK", "on_watermark"),
    ("ON UPDATE", "on_update"),
    ("EVERY INTERVAL '10' SECOND", "every"),
    ("PERIODICALLY 10s", "every"),
    ("ON WINDOW CLOSE", "on_window_close"),
    ("AFTER WINDOW CLOSE", "on_window_close"),
    ("CHANGES", "changes"),
    ("FINAL", "final"),
]


def test_every_spelling_of_emit_is_tested() -> None:
    assert {" ".join(words) for words in STRATEGIES} == {
        text.split(" INTERVAL")[0].removesuffix(" 10s") for text, _ in SPELLINGS
    }


@pytest.mark.parametrize(("text", "strategy"), SPELLINGS)
@pytest.mark.parametrize(
    "head", [HEAD, "SELECT a FROM t", "SELECT 1 AS a", "SELECT a FROM t UNION ALL SELECT b FROM u"]
)
def test_emit(head: str, text: str, strategy: str) -> None:
    sql = f"{head} EMIT {text}"
    parsed = query(sql)
    assert parsed.emit is not None and parsed.emit.strategy == strategy
    assert text_of(sql, parsed.emit.span) == f"EMIT {text}"
    assert (parsed.emit.interval is not None) == (strategy == "every")
    assert render(parsed.select) == render(query(head).select)


@pytest.mark.parametrize("head", [HEAD, "SELECT a FROM t", "SELECT a FROM t UNION ALL SELECT b FROM u"])
def test_a_new_spelling_needs_one_entry(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, ("ON", "TUESDAY"), "on_tuesday")
    monkeypatch.setitem(STRATEGIES, ("ON", "FULL", "MOON"), "on_full_moon")
    for text in ("ON TUESDAY", "ON FULL MOON"):
        parsed = query(f"{head} EMIT {text}")
        assert parsed.emit is not None and parsed.emit.strategy == text.lower().replace(" ", "_")
    with pytest.raises(Error, match="EMIT ON FULL must be followed by MOON"):
        query(f"{head} EMIT ON FULL")
    assert query("SELECT a FROM t JOIN u emit ON tuesday = 1").emit is None


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("5s", "INTERVAL '5' SECOND"),
        ("1h30m", "INTERVAL '5400' SECOND"),
        ("500ms", "INTERVAL '500' MILLISECOND"),
        ("1.5s", "INTERVAL '1500' MILLISECOND"),
        ("2d", "INTERVAL '2' DAY"),
        ("'10 seconds'", "INTERVAL '10' SECOND"),
        ("'1h'", "INTERVAL '1' HOUR"),
        ("10 MINUTES", "INTERVAL '10' MINUTE"),
        ("INTERVAL '1' MINUTE", "INTERVAL '1' MINUTE"),
        ("INTERVAL '1 minute'", "INTERVAL '1' MINUTE"),
        ("INTERVAL '1:00' HOURS TO MINUTES", "INTERVAL '1:00' HOUR TO MINUTE"),
    ],
)
def test_durations(text: str, interval: str) -> None:
    parsed = query(f"{HEAD} ALLOWED LATENESS {text} EMIT EVERY {text}")
    assert parsed.allowed_lateness is not None and render(parsed.allowed_lateness) == interval
    assert parsed.emit is not None and parsed.emit.interval is not None and render(parsed.emit.interval) == interval


def test_all_clauses_in_any_order() -> None:
    parsed = query(f"{HEAD} EMIT ON WATERMARK LATE DATA TO late ALLOW LATENESS 30s")
    assert parsed.emit is not None and parsed.emit.strategy == "on_watermark"
    assert parsed.late_data_to is not None and parsed.late_data_to.text == "late"
    assert parsed.allowed_lateness is not None


def test_as_of_step() -> None:
    assert query("SELECT * FROM v AS OF STEP 7").as_of_step == 7
    assert query("SELECT * FROM v AS x WHERE a = 1 ORDER BY a LIMIT 3 AS OF STEP 0").as_of_step == 0
    assert query("SELECT of.step FROM v AS of").as_of_step is None


def test_emit_after_a_query_in_parentheses() -> None:
    parsed = query("(SELECT a FROM t) EMIT CHANGES")
    assert parsed.emit is not None and parsed.emit.strategy == "changes"


def test_pgcdc_windows_before_and_after_group_by() -> None:
    after = query("SELECT channel FROM pgcdc_events GROUP BY channel HAVING COUNT(*) > 10 TUMBLING WINDOW 5m")
    before = query("SELECT channel FROM pgcdc_events TUMBLING WINDOW 5m GROUP BY channel HAVING COUNT(*) > 10")
    assert render(after.select) == render(before.select)
    for parsed in (after, before):
        window = clauses(parsed.select).window
        assert window is not None and window.kind == "tumbling" and render(window.size) == "INTERVAL '5' MINUTE"


def test_pgcdc_with_all_clauses() -> None:
    parsed = query(
        "SELECT channel FROM pgcdc_events GROUP BY channel EVENT TIME BY payload.row.ts ALLOWED LATENESS 1m "
        "SLIDING WINDOW 1h SLIDE 5m EMIT ON WATERMARK"
    )
    select_clauses = clauses(parsed.select)
    assert select_clauses.event_time is not None and render(select_clauses.event_time) == "payload.row.ts"
    assert select_clauses.window is not None and select_clauses.window.slide is not None
    assert render(select_clauses.window.slide) == "INTERVAL '5' MINUTE"
    assert parsed.allowed_lateness is not None and parsed.emit is not None


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("WINDOW TUMBLING (SIZE 1 HOUR)", "tumbling"),
        ("WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS)", "sliding"),
        ("WINDOW SESSION (5 MINUTES)", "session"),
    ],
)
def test_ksql_windows(clause: str, kind: str) -> None:
    parsed = query(f"SELECT a, COUNT(*) FROM t {clause} WHERE b = 1 GROUP BY a EMIT CHANGES")
    window = clauses(parsed.select).window
    assert window is not None and window.kind == kind
    assert render(parsed.select) == "SELECT a, COUNT(*) FROM t WHERE b = 1 GROUP BY a"


def test_ksql_grace_period_is_allowed_lateness() -> None:
    parsed = query("SELECT a FROM t WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES) GROUP BY a")
    assert parsed.allowed_lateness is not None and render(parsed.allowed_lateness) == "INTERVAL '10' MINUTE"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM TUMBLE(bids, ts, INTERVAL '1' MINUTE) AS b GROUP BY a",
        "SELECT a FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) b GROUP BY a",
        "SELECT a FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1 minute') b GROUP BY a",
    ],
)
def test_flink_spelling_has_the_same_tree(text: str) -> None:
    assert render(query(text).select) == "SELECT a FROM TUMBLE(bids, ts, INTERVAL '1' MINUTE) AS b GROUP BY a"


@pytest.mark.parametrize(
    ("text", "clause", "where"),
    [
        ("SELECT a FROM t TUMBLING WINDOW 5m", "window", "TUMBLING WINDOW 5m"),
        ("SELECT a FROM t WINDOW SESSION (5 SECONDS)", "window", "WINDOW SESSION (5 SECONDS)"),
        ("SELECT a FROM t EVENT TIME BY x.y", "event_time", "EVENT TIME BY x.y"),
        ("SELECT a FROM (SELECT a FROM t SESSION WINDOW 5m)", "window", "SESSION WINDOW 5m"),
    ],
)
def test_clauses_have_their_span(text: str, clause: str, where: str) -> None:
    (span,) = [
        clause_span for node in query(text).select.walk() if (clause_span := clauses(node).span(clause)) is not None
    ]
    assert text_of(text, span) == where


def test_hints_have_their_span() -> None:
    text = "SELECT /*+ EARLY_FIRE('delay'='5s') */ a FROM t"
    ((name, options, span),) = hints(query(text).select)
    assert (name, options, text_of(text, span)) == ("early_fire", {"delay": "5s"}, "EARLY_FIRE('delay'='5s')")


def test_system_time_before_and_after_the_alias() -> None:
    for text in (
        "SELECT a FROM o JOIN r FOR SYSTEM_TIME AS OF PROCTIME() AS x ON o.a = x.a",
        "SELECT a FROM o JOIN r AS x FOR SYSTEM_TIME AS OF PROCTIME() ON o.a = x.a",
    ):
        assert len(list(query(text).select.find_all(exp.Version))) == 1


def test_within_may_come_before_on() -> None:
    one, other = (
        query("SELECT a FROM t JOIN u WITHIN 5m ON t.a = u.a"),
        query("SELECT a FROM t JOIN u ON t.a = u.a WITHIN 5m"),
    )
    assert render(one.select) == render(other.select) == "SELECT a FROM t JOIN u ON t.a = u.a"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ EARLY_FIRE('delay'='5s', 'time-mode'='rowtime') */ a FROM t",
        "SELECT a, count(*) /*+ EARLY_FIRE('delay'='5s', 'time-mode'='rowtime') */ FROM t",
    ],
)
def test_hints_belong_to_the_select_around_them(text: str) -> None:
    ((name, options, _),) = hints(query(text).select)
    assert (name, options) == ("early_fire", {"delay": "5s", "time-mode": "rowtime"})


def test_a_hint_in_a_subquery_belongs_to_the_subquery() -> None:
    select = query("SELECT a FROM (SELECT b, /*+ X('k'='v') */ c FROM t)").select
    assert hints(select) == []
