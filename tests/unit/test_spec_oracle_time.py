"""The oracle with time, against values computed by hand: emitted results after each step, for every EMIT strategy and
for views on views."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.schema import Column
from tidegate.sql import parse
from tidegate.testing.oracle.batch import Batch, WatermarkValues
from tidegate.testing.oracle.inputs import DELETE, INSERT, InputRow
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.oracle.statements import apply_script
from tidegate.testing.spec.values import show_time

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
SOURCE = "CREATE SOURCE s (k STRING, x BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
SUMS = "SELECT window_start AS w, SUM(x) AS total FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_start"


class World:
    """An oracle that receives SQL, and rows with times in seconds after noon."""

    def __init__(self, spark, *statements):
        self.oracle = Oracle(WatermarkValues(Batch(spark)))
        self.execute(*statements)

    def execute(self, *statements):
        for text in statements:
            script = parse(text)
            statement = script.statements[0]
            columns = [Column(one.name.text, one.type) for one in getattr(statement, "columns", ())]
            apply_script(self.oracle, script, lambda _, columns=columns: tuple(columns))

    def step(self, *rows, relation="s", action=INSERT):
        times = [None if at is None else NOON + timedelta(seconds=at) for _, _, at in rows]
        inputs = [InputRow(action, (k, x, time)) for (k, x, _), time in zip(rows, times, strict=True)]
        self.oracle.write(relation, inputs)
        self.oracle.step()

    def __getitem__(self, view):
        assert self.oracle.unanswerable(view) is None, self.oracle.unanswerable(view)
        rendered = [tuple(map(_render, row)) for row in self.oracle.answer(view).values]
        return sorted(rendered, key=repr)


def _render(value):
    return show_time(value) if isinstance(value, datetime) else value


@pytest.fixture
def world(spark):
    def make(*statements):
        return World(spark, *statements)

    return make


def test_each_strategy_emits_results_at_its_time(world):
    strategies = {
        "default_": "",
        "watermark": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT ON WATERMARK",
        "close": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT ON WINDOW CLOSE",
        "final": "EMIT FINAL",
        "every": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT EVERY INTERVAL '1' MINUTE",
        "changes": "ALLOWED LATENESS INTERVAL '10' SECOND EMIT CHANGES",
        "update": "EMIT ON UPDATE",
    }
    pipeline = world(SOURCE, *(f"CREATE MATERIALIZED VIEW {name} AS {SUMS} {end}" for name, end in strategies.items()))
    pipeline.step(("a", 1, 3), ("a", 2, 7), ("a", 3, None))
    assert [pipeline[name] for name in ("default_", "watermark", "close", "final", "every")] == [[]] * 5
    assert pipeline["changes"] == pipeline["update"] == [("12:00:00", 3)]
    pipeline.step(("a", 5, 15))
    first, second = ("12:00:00", 3), ("12:00:10", 5)
    assert pipeline["default_"] == pipeline["watermark"] == pipeline["final"] == pipeline["every"] == [first]
    assert pipeline["close"] == []
    pipeline.step(("a", 100, 1))
    assert pipeline["default_"] == pipeline["final"] == pipeline["every"] == [first]
    assert pipeline["watermark"] == [("12:00:00", 103)]
    assert pipeline["changes"] == [("12:00:00", 103), second]
    assert pipeline["update"] == [first, second]
    pipeline.oracle.move_clock(60_000_000)
    assert pipeline["every"] == [("12:00:00", 103), second]
    pipeline.step(("a", 7, 25))
    assert pipeline["close"] == [("12:00:00", 103)]
    pipeline.step(("a", 100, 2))
    assert pipeline["watermark"] == [("12:00:00", 103), second]
    pipeline.oracle.end()
    assert pipeline["close"] == pipeline["every"] == [("12:00:00", 103), second, ("12:00:20", 7)]


def test_with_lateness_the_default_is_emit_changes_and_where_precedes_the_late_filter(world):
    pipeline = world(
        "CREATE SOURCE s (k STRING, x BIGINT, ts TIMESTAMP LATENESS INTERVAL '1' MINUTE)",
        f"CREATE MATERIALIZED VIEW v AS {SUMS.replace('GROUP', 'WHERE x > 0 GROUP')}",
    )
    pipeline.step(("a", 1, 3), ("a", -1, 4))
    assert pipeline["v"] == [("12:00:00", 1)]
    pipeline.step(("a", 1, 70))
    pipeline.step(("a", 5, 9), ("a", 5, 11))
    assert pipeline["v"] == [("12:00:00", 1), ("12:00:10", 5), ("12:01:10", 1)]


def test_a_table_can_retract_rows_of_open_windows_only(world):
    pipeline = world(SOURCE.replace("SOURCE", "TABLE"), f"CREATE MATERIALIZED VIEW v AS {SUMS} EMIT CHANGES")
    pipeline.step(("a", 1, 3), ("a", 2, 12), ("a", 3, 16))
    pipeline.step(("a", 1, 3), ("a", 2, 12), action=DELETE)
    assert pipeline["v"] == [("12:00:00", 1), ("12:00:10", 3)]


def test_sessions_are_per_key_and_close_after_their_gap(world):
    sessions = "SELECT SESSION_START(ts, '10s') AS a, SESSION_END(ts, '10s') AS b, k, COUNT(*) AS n FROM s"
    pipeline = world(
        SOURCE, f"CREATE MATERIALIZED VIEW v AS {sessions} GROUP BY SESSION(ts, '10s'), k EMIT ON WATERMARK"
    )
    pipeline.step(("a", 1, 0), ("a", 1, 10), ("b", 1, 8), ("b", 1, 15))
    assert pipeline["v"] == [("12:00:00", "12:00:10", "a", 1)]
    pipeline.step(("a", 1, 5), ("b", 1, 30))
    assert pipeline["v"] == [
        ("12:00:00", "12:00:10", "a", 1),
        ("12:00:08", "12:00:25", "b", 2),
        ("12:00:10", "12:00:20", "a", 1),
    ]


def test_projections_and_monotone_groups_wait_for_their_columns(world):
    pipeline = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW rows AS SELECT ts, x FROM s EMIT ON WINDOW CLOSE",
        "CREATE MATERIALIZED VIEW days AS SELECT DATE(ts) AS d, COUNT(*) AS n FROM s GROUP BY DATE(ts) EMIT FINAL",
        "CREATE MATERIALIZED VIEW minutes WITH ('emit_final' = 'm') AS"
        " SELECT date_trunc('MINUTE', ts) AS m, COUNT(*) AS n FROM s GROUP BY 1",
        "CREATE MATERIALIZED VIEW over AS SELECT m FROM minutes",
    )
    pipeline.step(("a", 1, 1), ("a", 2, 6), ("a", 3, 11))
    assert pipeline["rows"] == [("12:00:01", 1)]
    assert pipeline["minutes"] == pipeline["days"] == []
    assert pipeline["over"] == [("12:00:00",)]
    pipeline.step(("a", 4, 5), ("a", 5, 65))
    assert pipeline["rows"] == [("12:00:01", 1), ("12:00:06", 2), ("12:00:11", 3)]
    assert pipeline["minutes"] == [("12:00:00", 4)]
    pipeline.step(("a", 6, 59), ("a", 7, 86_400))
    assert pipeline["minutes"] == [("12:00:00", 4), ("12:01:00", 1)]
    pipeline.oracle.end()
    assert [row[1] for row in pipeline["days"]] == [6, 1]


def test_windows_over_windows_read_emitted_results(world):
    pipeline = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW v AS SELECT window_end AS e, SUM(x) AS total"
        " FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_end",
        "CREATE MATERIALIZED VIEW w AS SELECT window_start AS a, SUM(total) AS total"
        " FROM TUMBLE(v, e, INTERVAL '20' SECOND) GROUP BY window_start",
    )
    pipeline.step(("a", 1, 1), ("a", 2, 11))
    pipeline.step(("a", 4, 25))
    assert pipeline["v"] == [("12:00:10", 1), ("12:00:20", 2)]
    assert pipeline["w"] == [("12:00:00", 1)]
    pipeline.step(("a", 8, 46))
    assert pipeline["w"] == [("12:00:00", 1), ("12:00:20", 6)]


def test_rows_older_than_a_view_are_never_late(world):
    pipeline = world(SOURCE.replace("SOURCE", "TABLE"))
    pipeline.step(("a", 1, 3), ("a", 2, 30))
    pipeline.execute(
        f"CREATE MATERIALIZED VIEW v AS {SUMS}",
        "CREATE MATERIALIZED VIEW rows AS SELECT ts, x FROM s EMIT FINAL",
    )
    pipeline.step(("a", 4, 4), ("a", 8, 22))
    assert pipeline["v"] == [("12:00:00", 1)]
    assert pipeline["rows"] == [("12:00:03", 1)]
    pipeline.step(("a", 16, 40))
    assert pipeline["v"] == [("12:00:00", 1), ("12:00:20", 8)]


def test_now_is_the_clock(world):
    recent = "CREATE MATERIALIZED VIEW v AS SELECT x FROM s WHERE ts > NOW() - INTERVAL '1' MINUTE"
    pipeline = world(SOURCE, recent)
    pipeline.step(("a", 1, -12 * 3600 - 50), ("a", 2, -12 * 3600))
    assert pipeline["v"] == [(1,), (2,)]
    pipeline.oracle.move_clock(10_000_000)
    assert pipeline["v"] == [(2,)]


def test_late_rows_go_to_their_target_and_lateness_of_a_view_filters_its_changes(world):
    pipeline = world(
        SOURCE,
        SOURCE.replace("SOURCE s", "TABLE late"),
        "LATENESS v.ts INTERVAL '5' SECOND",
        f"CREATE MATERIALIZED VIEW sums AS {SUMS} LATE DATA TO late",
        "CREATE MATERIALIZED VIEW v AS SELECT x, ts FROM s",
        "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM late",
    )
    pipeline.step(("a", 1, 20))
    pipeline.step(("a", 2, 3), ("a", 4, 15))
    assert pipeline["n"] == [(1,)]
    assert [row[0] for row in pipeline["v"]] == [1, 4]


def test_unanswerable_views_have_a_reason(world):
    pipeline = world(
        SOURCE,
        "CREATE MATERIALIZED VIEW a AS SELECT window_start, COUNT(*) AS n FROM"
        " TUMBLE((SELECT * FROM s), ts, INTERVAL '10' SECOND) GROUP BY window_start",
        "CREATE MATERIALIZED VIEW b AS SELECT n FROM a",
        "CREATE MATERIALIZED VIEW c AS SELECT NOW() AS n FROM s",
        "CREATE VIEW d AS SELECT k FROM s WHERE ts > NOW() - INTERVAL '1' DAY",
        f"CREATE VIEW e AS {SUMS}",
    )
    pipeline.step(("a", 1, 1))
    assert "over a subquery" in pipeline.oracle.unanswerable("a")
    assert "over a subquery" in pipeline.oracle.unanswerable("b")
    assert "NOW()" in pipeline.oracle.unanswerable("c")
    assert "not maintained" in pipeline.oracle.unanswerable("d")
    assert pipeline["e"] == [], "it waits for its windows"


def test_rows_are_in_time_until_one_of_their_input_is_below_its_watermark(world):
    views = world(SOURCE, f"CREATE MATERIALIZED VIEW v AS {SUMS}")

    def in_time(*moments):
        views.step(*((None, 1, at) for at in moments))
        return views.oracle.in_time("v", views.oracle.take_disordered())

    assert in_time(10, 1)
    assert in_time(5)
    assert not in_time(20, 4)
    assert in_time(15)
    views.execute("LATENESS v.w INTERVAL '1' SECOND")
    assert not views.oracle.in_time("v", set()), "rows can be late there that were in time before"
