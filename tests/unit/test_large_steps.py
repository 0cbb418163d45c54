"""Steps so large that blocks are passed as files and workers write the changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

import tidegate
from tidegate.database import runtime_of

GROUPS = 60_000
STATEMENTS = """
    CREATE SOURCE events (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts);
    CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS total, COUNT(*) AS n FROM events GROUP BY k;
    CREATE MATERIALIZED VIEW unseen_key AS SELECT SUM(v) AS total FROM events GROUP BY k;
    CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
    CREATE MATERIALIZED VIEW closed AS
        SELECT window_start, k, SUM(v) AS total FROM TUMBLE(events, ts, INTERVAL '1' MINUTE)
        GROUP BY window_start, k EMIT ON WINDOW CLOSE;
"""


def rows(step: int, count: int) -> pa.Table:
    keys = np.arange(count, dtype=np.int64)
    minute = pl.Series(np.full(count, step * 60_000_000, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"k": keys, "v": keys % 7 + step, "ts": minute}).to_arrow()


def test_large_steps_are_exact_and_leave_no_files_behind(spark: SparkSession, tmp_path: Path) -> None:
    def content(db: tidegate.Database, view: str) -> Counter[tuple[object, ...]]:
        return Counter(db.query(f"SELECT * FROM {view}").rows())

    with tidegate.connect(tmp_path / "large", spark=spark) as db:
        db.sql(STATEMENTS)
        for step in range(3):
            db.insert("events", rows(step, GROUPS))
            report = db.step()
        assert report.rows_out["sums"] == 2 * GROUPS, "changes that workers wrote are counted"
        files = {file.relation for header in runtime_of(db).log.headers() for file in header.files}
        assert files == {"sums", "closed"}, "what hides its key is put together by the driver"
        assert not list((tmp_path / "large" / "exchange").rglob("*")), "no block is left on its way"

    with tidegate.connect(tmp_path / "large", spark=spark) as db:
        db.insert("events", rows(3, 10))
        db.step()
        total = {key: 3 * (key % 7) + 3 + (key % 7 + 3 if key < 10 else 0) for key in range(GROUPS)}
        assert content(db, "sums") == Counter((k, t, 4 if k < 10 else 3) for k, t in total.items())
        assert content(db, "unseen_key") == Counter((t,) for t in total.values())
        assert content(db, "sizes") == Counter({(3, GROUPS - 10): 1, (4, 10): 1})
        assert db.query("SELECT COUNT(*), COUNT(DISTINCT window_start), SUM(total) FROM closed").rows() == [
            (3 * GROUPS, 3, sum(3 * (key % 7) + 3 for key in range(GROUPS)))
        ]
        assert db.query("SELECT COUNT(*) FROM sums AS OF STEP 1").rows() == [(GROUPS,)]
        assert runtime_of(db).log.count("sums") == GROUPS

        changes = list(db.subscribe("sums", from_step=1, timeout=0))
        steps = list(dict.fromkeys(change.step for change in changes))
        second = [change for change in changes if change.step == steps[1]]
        assert Counter(change.op for change in second) == {"-U": GROUPS, "+U": GROUPS}
        assert {change.op for change in second[:GROUPS]} == {"-U"}, "retractions come before insertions"


def test_many_late_rows_are_all_recorded(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "late", spark=spark) as db:
        db.sql("CREATE SOURCE events (k BIGINT, v BIGINT, ts TIMESTAMP LATENESS INTERVAL '0' SECOND)")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM events")
        db.insert("events", rows(10, 1))
        db.step()
        db.insert("events", rows(1, 3_000))
        assert db.step().late == 3_000
        db.insert("events", rows(2, 5))
        db.step()
        assert db.query("SELECT * FROM n").rows() == [(1,)]
        late = "SELECT COUNT(*), COUNT(DISTINCT `row`), MIN(view), MAX(waterline) FROM system.late_rows"
        assert db.query(late).rows() == [(3_005, 3_005, None, "1970-01-01 00:10:00")]
        assert db.query("SELECT SUM(late) FROM system.steps").rows() == [(3_005,)]
        assert db.metrics()["late"] == 3_005
        assert db.query("SELECT COUNT(*) FROM events").rows() == [(1,)], "what was late never came"
