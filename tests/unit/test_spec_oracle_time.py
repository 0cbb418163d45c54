"""The oracle with time, by hand: what is out after each step, for every EMIT and for views on views."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.schema import Column
from tidegate.sql import parse
from tidegate.testing.batch import Batch
from tidegate.testing.inputs import DELETE, INSERT, Given
from tidegate.testing.line_values import LineValues
from tidegate.testing.oracle import Oracle
from tidegate.testing.spec.values import show_time
from tidegate.testing.statements import note

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
SOURCE = "CREATE SOURCE s (k STRING, x BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
SUMS = "SELECT window_start AS w, SUM(x) AS total FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_start"


class World:
    """An oracle that is told SQL and rows at seconds after noon."""

    def __init__(self, spark, *statements):
        self.oracle = Oracle(LineValues(Batch(spark)))
        self.tell(*statements)

    def tell(self, *statements):
        for text in statements:
            script = parse(text)
            created = script.statements[0]
            columns = [Column(one.name.text, one.type) for one in getattr(created, "columns", ())]
            note(self.oracle, script, lambda _, columns=columns: tuple(columns))

    def step(self, *rows, relation="s", action=INSERT):
        times = [None if at is None else NOON + timedelta(seconds=at) for _, _, at in rows]
        given = [Given(action, (k, x, time)) for (k, x, _), time in zip(rows, times, strict=True)]
        self.oracle.give(relation, given)
        self.oracle.step()

    def __getitem__(self, view):
        assert self.oracle.unanswerable(view) is None, self.oracle.unanswerable(view)
        found = [tuple(map(_shown, row)) for row in self.oracle.answer(view).values]
        return sorted(found, key=repr)


def _shown(value):
    return show_time(value) if isinstance(value, datetime) else value


@pytest.fixture
def world(spark):
    def make(*statements):
        return World(spark, *statements)

    return make


def test_each_strategy_lets_results_go_at_its_time(world):
    strategies = {
        "default_": "",
        "watermark": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT ON WATERMARK",
        "close": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT ON WINDOW CLOSE",
        "final": "EMIT FINAL",
        "every": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT EVERY INTERVAL '1' MINUTE",
        "changes": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT CHANGES",
        "update": "EMIT ON UPDATE",
    }
    found = world(SOURCE, *(f"CREATE MATERIALIZED VIEW {name} AS {SUMS} {end}" for name, end in strategies.items()))
    found.step(("a", 1, 3), ("a", 2, 7), ("a", 3, None))
    assert [found[name] for name in ("default_", "watermark", "close", "final", "every")] == [[]] * 5
    assert found["changes"] == found["update"] == [("12:00:00", 3)]
    found.step(("a", 5, 15))
    first, second = ("12:00:00", 3), ("12:00:10", 5)
    assert found["default_"] == found["watermark"] == found["final"] == found["every"] == [first]
    assert found["close"] == []
    found.step(("a", 100, 1))
    assert found["default_"] == found["final"] == found["every"] == [first]
    assert found["watermark"] == [("12:00:00", 103)]
    assert found["changes"] == [("12:00:00", 103), second]
    assert found["update"] == [first, second]
    found.oracle.move_clock(60_000_000)
    assert found["every"] == [("12:00:00", 103), second]
    found.step(("a", 7, 25))
    assert found["close"] == [("12:00:00", 103)]
    found.step(("a", 100, 2))
    assert found["watermark"] == [("12:00:00", 103), second]
    found.oracle.end()
    assert found["close"] == found["every"] == [("12:00:00", 103), second, ("12:00:20", 7)]


def test_lateness_of_the_input_makes_changes_the_default_and_where_comes_before_late(world):
    found = world(
        "CREATE SOURCE s (k STRING, x BIGINT, ts TIMESTAMP LATENESS INTERVAL '1' MINUTE)",
        f"CREATE MATERIALIZED VIEW v AS {SUMS.replace('GROUP', 'WHERE x > 0 GROUP')}",
    )
    found.step(("a", 1, 3), ("a", -1, 4))
    assert found["v"] == [("12:00:00", 1)]
    found.step(("a", 1, 70))
    found.step(("a", 5, 9), ("a", 5, 11))
    assert found["v"] == [("12:00:00", 1), ("12:00:10", 5), ("12:01:10", 1)]


def test_a_table_may_take_back_rows_of_open_windows_only(world):
    found = world(SOURCE.replace("SOURCE", "TABLE"), f"CREATE MATERIALIZED VIEW v AS {SUMS} EMIT CHANGES")
    found.step(("a", 1, 3), ("a", 2, 12), ("a", 3, 16))
    found.step(("a", 1, 3), ("a", 2, 12), action=DELETE)
    assert found["v"] == [("12:00:00", 1), ("12:00:10", 3)]


def test_sessions_are_per_key_and_close_after_their_gap(world):
    sessions = "SELECT SESSION_START(ts, '10s') AS a, SESSION_END(ts, '10s') AS b, k, COUNT(*) AS n FROM s"
    found = world(SOURCE, f"CREATE MATERIALIZED VIEW v AS {sessions} GROUP BY SESSION(ts, '10s'), k EMIT ON WATERMARK")
    found.step(("a", 1, 0), ("a", 1, 10), ("b", 1, 8), ("b", 1, 15))
    assert found["v"] == [("12:00:00", "12:00:10", "a", 1)]
    found.step(("a", 1, 5), ("b", 1, 30))
    assert found["v"] == [
        ("12:00:00", "12:00:10", "a", 1),
        ("12:00:08", "12:00:25", "b", 2),
        ("12:00:10", "12:00:20", "a", 1),
    ]


def test_projections_and_monotone_groups_wait_for_their_columns(world):
    found = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW rows AS SELECT ts, x FROM s EMIT ON WINDOW CLOSE",
        "CREATE MATERIALIZED VIEW days AS SELECT DATE(ts) AS d, COUNT(*) AS n FROM s GROUP BY DATE(ts) EMIT FINAL",
        "CREATE MATERIALIZED VIEW minutes WITH ('emit_final' = 'm') AS"
        " SELECT date_trunc('MINUTE', ts) AS m, COUNT(*) AS n FROM s GROUP BY 1",
        "CREATE MATERIALIZED VIEW over AS SELECT m FROM minutes",
    )
    found.step(("a", 1, 1), ("a", 2, 6), ("a", 3, 11))
    assert found["rows"] == [("12:00:01", 1)]
    assert found["minutes"] == found["days"] == []
    assert found["over"] == [("12:00:00",)]
    found.step(("a", 4, 5), ("a", 5, 65))
    assert found["rows"] == [("12:00:01", 1), ("12:00:06", 2), ("12:00:11", 3)]
    assert found["minutes"] == [("12:00:00", 4)]
    found.step(("a", 6, 59), ("a", 7, 86_400))
    assert found["minutes"] == [("12:00:00", 4), ("12:01:00", 1)]
    found.oracle.end()
    assert [row[1] for row in found["days"]] == [6, 1]


def test_windows_over_windows_see_what_is_out(world):
    found = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW v AS SELECT window_end AS e, SUM(x) AS total"
        " FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_end",
        "CREATE MATERIALIZED VIEW w AS SELECT window_start AS a, SUM(total) AS total"
        " FROM TUMBLE(v, e, INTERVAL '20' SECOND) GROUP BY window_start",
    )
    found.step(("a", 1, 1), ("a", 2, 11))
    found.step(("a", 4, 25))
    assert found["v"] == [("12:00:10", 1), ("12:00:20", 2)]
    assert found["w"] == [("12:00:00", 1)]
    found.step(("a", 8, 46))
    assert found["w"] == [("12:00:00", 1), ("12:00:20", 6)]


def test_what_was_there_before_a_view_is_never_late(world):
    found = world(SOURCE.replace("SOURCE", "TABLE"))
    found.step(("a", 1, 3), ("a", 2, 30))
    found.tell(
        f"CREATE MATERIALIZED VIEW v AS {SUMS}",
        "CREATE MATERIALIZED VIEW rows AS SELECT ts, x FROM s EMIT FINAL",
    )
    found.step(("a", 4, 4), ("a", 8, 22))
    assert found["v"] == [("12:00:00", 1)]
    assert found["rows"] == [("12:00:03", 1)]
    found.step(("a", 16, 40))
    assert found["v"] == [("12:00:00", 1), ("12:00:20", 8)]


def test_now_is_the_clock(world):
    recent = "CREATE MATERIALIZED VIEW v AS SELECT x FROM s WHERE ts > NOW() - INTERVAL '1' MINUTE"
    found = world(SOURCE, recent)
    found.step(("a", 1, -12 * 3600 - 50), ("a", 2, -12 * 3600))
    assert found["v"] == [(1,), (2,)]
    found.oracle.move_clock(10_000_000)
    assert found["v"] == [(2,)]


def test_late_rows_go_where_they_are_told_and_lateness_of_a_view_refuses_its_changes(world):
    found = world(
        SOURCE,
        SOURCE.replace("SOURCE s", "TABLE late"),
        "LATENESS v.ts INTERVAL '5' SECOND",
        f"CREATE MATERIALIZED VIEW sums AS {SUMS} LATE DATA TO late",
        "CREATE MATERIALIZED VIEW v AS SELECT x, ts FROM s",
        "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM late",
    )
    found.step(("a", 1, 20))
    found.step(("a", 2, 3), ("a", 4, 15))
    assert found["n"] == [(1,)]
    assert [row[0] for row in found["v"]] == [1, 4]


def test_what_cannot_be_told_is_said(world):
    found = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW a AS SELECT window_start, COUNT(*) AS n FROM"
        " TUMBLE((SELECT * FROM s), ts, INTERVAL '10' SECOND) GROUP BY window_start",
        "CREATE MATERIALIZED VIEW b AS SELECT n FROM a",
        "CREATE MATERIALIZED VIEW c AS SELECT NOW() AS n FROM s",
        f"CREATE VIEW d AS {SUMS}",
    )
    found.step(("a", 1, 1))
    assert "over a subquery" in found.oracle.unanswerable("a")
    assert "over a subquery" in found.oracle.unanswerable("b")
    assert "NOW()" in found.oracle.unanswerable("c")
    assert "not maintained" in found.oracle.unanswerable("d")
