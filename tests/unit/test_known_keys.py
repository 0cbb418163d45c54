"""An INSERT of a key that an append-only table has is refused at once, whether a step has read the row or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate


def refuses(db: tidegate.Database, *rows: tuple[int | None, int]) -> bool:
    try:
        db.insert("t", list(rows))
    except tidegate.Error as error:
        assert error.code == "APPEND_ONLY"
        return True
    return False


def test_keys_of_all_steps_entries_and_processes_are_known(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path, spark=spark, clock="virtual") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH ('append_only' = 'true')")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, x FROM t")
        assert refuses(db, (1, 1), (1, 2))
        assert not refuses(db, (1, 1))
        assert refuses(db, (2, 1), (1, 2)), "no step has read it yet"
        db.step()
        assert refuses(db, (1, 2)) and not refuses(db, (2, 1))
        assert not refuses(db, (None, 1)), "a NULL key is refused by the table"
        with db.batch() as batch:
            batch.insert("t", [(3, 1)])
            with pytest.raises(tidegate.Error, match="t is append_only: it has a row with k = 3 already"):
                batch.insert("t", [(3, 2)])
        with pytest.raises(tidegate.Error, match="k = 2 already"):
            db.sql("UPDATE t SET x = 5 WHERE k = 2")
    with tidegate.connect(tmp_path, spark=spark, clock="virtual") as db:
        assert refuses(db, (3, 9)) and refuses(db, (1, 9)) and not refuses(db, (4, 1))
        db.step()
        assert sorted(db.query("SELECT k, x FROM v").rows()) == [(1, 1), (2, 1), (3, 1), (4, 1)]
        db.sql("DROP TABLE t CASCADE; CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH ('append_only' = 'true')")
        assert not refuses(db, (1, 1)), "another table of that name"
