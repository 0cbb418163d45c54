"""State that a watermark has passed is evicted while a pipeline runs, and none of it is left after the end of input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidegate
from tidegate.circuit.lower import joins
from tidegate.circuit.lower import rows as rows_of_lower

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

WINDOWS = """
    SELECT k, COUNT(*) AS n, window_start AS ws, window_end AS we
    FROM {kind}({source}, ts, {size}) GROUP BY k, window_start, window_end
"""
TUMBLE = {"kind": "TUMBLE", "size": "INTERVAL '10' SECOND"}
HOP = {"kind": "HOP", "size": "INTERVAL '5' SECOND, INTERVAL '10' SECOND"}
SESSION = {"kind": "SESSION", "size": "INTERVAL '3' SECOND"}


def windows(shape: dict[str, str], source: str = "s") -> str:
    return f"({WINDOWS.format(source=source, **shape)})"


VIEWS = {
    "pairs": f"SELECT a.k, a.n, b.n AS m FROM {windows(TUMBLE)} a "
    f"JOIN {windows(TUMBLE, 'u')} b ON a.k = b.k AND a.ws = b.ws AND a.we = b.we",
    "unmatched": f"SELECT a.k, a.n, b.n AS m FROM {windows(TUMBLE)} a "
    f"FULL JOIN {windows(TUMBLE, 'u')} b ON a.k = b.k AND a.ws = b.ws",
    "hottest": f"SELECT c.k, c.n FROM {windows(HOP)} c "
    f"JOIN (SELECT MAX(n) AS most, ws, we FROM {windows(HOP)} GROUP BY ws, we) m "
    "ON c.ws = m.ws AND c.we = m.we WHERE c.n >= m.most",
    "best": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY ws ORDER BY n DESC) AS place "
    f"FROM {windows(TUMBLE)}) WHERE place <= 2",
    "starts": f"SELECT DISTINCT ws FROM {windows(TUMBLE)}",
    "in_both": f"SELECT k, ws FROM {windows(TUMBLE)} INTERSECT SELECT k, ws FROM {windows(TUMBLE, 'u')}",
    "sessions": WINDOWS.format(source="s", **SESSION),
    "sessions_while_open": WINDOWS.format(source="s", **SESSION) + "EMIT CHANGES",
    "closed": WINDOWS.format(source="s", **TUMBLE) + "EMIT ON WINDOW CLOSE",
    "of_closed": "SELECT ws, SUM(n) AS n FROM closed GROUP BY ws",
    "joined_when_closed": "SELECT a.k, b.n FROM closed a JOIN of_closed b ON a.ws = b.ws",
}
FIGURES = "SELECT name, state_rows FROM system.views WHERE name <> 'latest'"
MINUTES = 6


def create(db: tidegate.Database, views: dict[str, str]) -> None:
    for source in ("s", "u"):
        db.sql(f"CREATE SOURCE {source} (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)")
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def insert(db: tidegate.Database, minute: int) -> None:
    """Forty rows of seven keys in both sources."""
    for source in ("s", "u"):
        db.insert(source, [{"k": f"k{n % 7}", "ts": f"2024-05-01 12:{minute:02}:{n * 7 % 60:02}"} for n in range(40)])
    db.step()


def test_state_is_bounded_and_gone_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        create(db, VIEWS)
        db.sql(
            "CREATE MATERIALIZED VIEW latest AS SELECT k, ts FROM "
            "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM s) WHERE n <= 1"
        )
        sizes = []
        for minute in range(MINUTES):
            insert(db, minute)
            sizes.append(dict(db.query(FIGURES).rows()))
            assert db.query("SELECT state_rows FROM system.views WHERE name = 'latest'").rows() == [(7,)]
        assert all(size for name, size in sizes[0].items() if "closed" not in name), "rows of open windows are stored"
        assert sizes[2] == sizes[MINUTES - 1], "no more after six minutes than after three"
        db.run_once()
        assert {name: count for name, count in db.query(FIGURES).rows() if count} == {}
        assert db.query("SELECT COUNT(*), COUNT(DISTINCT ws) FROM best").rows() == [(72, 36)]
        assert db.query("SELECT COUNT(*) FROM pairs").rows() == [(222,)], "every key of every window"


def test_state_of_a_version_that_evicted_nothing_is_taken_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators keep their identity, so an old folder goes on with its state and its views with their rows. The rows
    that the old version kept are evicted as soon as the pipeline changes."""
    views = {name: VIEWS[name] for name in ("pairs", "hottest", "best", "starts")}
    with monkeypatch.context() as patch:
        patch.setattr(joins, "_evicting", lambda to, spec, node: spec)
        patch.setattr(rows_of_lower, "_evicting", lambda to, spec, node, columns: spec)
        with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
            create(db, views)
            for minute in (0, 1):
                insert(db, minute)
            old = dict(db.query(FIGURES).rows())
            before = {name: db.query(f"SELECT COUNT(*) FROM {name}").rows() for name in views}
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        db.sql("CREATE MATERIALIZED VIEW another AS SELECT k, COUNT(*) AS n FROM s GROUP BY k")
        db.step()
        assert {name: db.query(f"SELECT COUNT(*) FROM {name}").rows() for name in views} == before
        insert(db, 2)
        sizes = dict(db.query(FIGURES).rows())
        assert all(sizes[name] < old[name] / 2 for name in views)
        db.run_once()
        assert {name: count for name, count in db.query(FIGURES).rows() if count and name != "another"} == {}
        assert db.query("SELECT COUNT(*), COUNT(DISTINCT ws) FROM best").rows() == [(36, 18)]
        assert db.query("SELECT COUNT(*) FROM pairs").rows() == [(111,)]
