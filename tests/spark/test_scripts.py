"""A script that is run again after a crash applies every statement exactly once, wherever the process crashed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.core.failpoints import observed
from tidegate.database import runtime_of
from tidegate.storage.ledger import Ledger, ScriptStatement

SCRIPT = """
    SET retention_steps = 50;
    LATENESS recent.ts INTERVAL '1' SECOND;
    CREATE TABLE stock (item STRING, n BIGINT, PRIMARY KEY (item));
    CREATE SOURCE bids (price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
    CREATE TABLE notes (line STRING);
    INSERT INTO stock VALUES ('a', 1), ('b', 2);
    INSERT INTO notes VALUES ('x');
    INSERT INTO notes SELECT item FROM (VALUES ('y')) AS t (item);
    UPDATE stock SET n = n + 1;
    DELETE FROM stock WHERE item = 'b';
    ADVANCE bids.ts TO '2024-01-01 00:00:00';
    CREATE VIEW recent AS SELECT ts FROM bids;
    CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM stock;
    CREATE OR REPLACE VIEW recent AS SELECT ts FROM bids;
    CREATE MATERIALIZED VIEW doubled AS SELECT n * 2 AS n FROM total;
    DROP MATERIALIZED VIEW total CASCADE;
    DROP VIEW IF EXISTS recent;
"""
STATEMENTS = SCRIPT.count(";")


class Died(BaseException):
    """Stands for the death of the process."""


def run(folder: Path, spark: SparkSession) -> dict[str, object]:
    """Runs the script, and returns the content of the folder after it."""
    with tidegate.connect(folder, spark=spark) as db:
        db.run_script(SCRIPT)
        runtime = runtime_of(db)
        entries = runtime.inserts.entries(0, runtime.inserts.head())
        return {
            "catalog": runtime.catalog.value.relations,
            "entries": [
                (h.advance, [(p.name, p.table.to_pylist(), p.weight) for p in parts]) for _, h, parts in entries
            ],
            "retention": runtime.ledger.setting("retention_steps"),
            "lateness": runtime.ledger.expected_lateness("recent"),
            "remembered": sorted(runtime.ledger.start_steps()),
        }


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    content = run(tmp_path_factory.mktemp("whole") / "data", spark)
    assert content["remembered"] == ["bids", "notes", "stock"]
    assert len(content["entries"]) == 6  # type: ignore[arg-type]
    return content


def run_until_done(folder: Path, spark: SparkSession, failing: Callable[[int], AbstractContextManager[None]]) -> int:
    """Runs the script again after each crash; returns the number of crashes."""
    for run_number in range(3 * STATEMENTS):
        try:
            with failing(run_number):
                run(folder, spark)
            return run_number
        except Died:
            continue
    raise AssertionError("the script does not come to an end")


def test_a_crash_between_the_effect_and_its_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, object]
) -> None:
    seen: set[ScriptStatement] = set()
    record = Ledger.record

    def record_or_die(ledger: Ledger, statement: ScriptStatement) -> None:
        if statement not in seen:
            seen.add(statement)
            raise Died
        record(ledger, statement)

    monkeypatch.setattr(Ledger, "record", record_or_die)
    assert run_until_done(tmp_path / "data", spark, lambda _: nullcontext()) == STATEMENTS
    assert run(tmp_path / "data", spark) == expected


def test_a_crash_at_every_write(spark: SparkSession, tmp_path: Path, expected: dict[str, object]) -> None:
    """Runs crash at the first and at the second failpoint in turn, so that a repeated statement finishes at last."""
    deaths: Counter[str] = Counter()

    @contextmanager
    def die_at(run_number: int) -> Iterator[None]:
        points: list[str] = []

        def reach(name: str) -> None:
            points.append(name)
            if len(points) == 1 + run_number % 2:
                deaths[name] += 1
                raise Died

        with observed(reach):
            yield

    assert run_until_done(tmp_path / "data", spark, die_at) > STATEMENTS / 2
    assert run(tmp_path / "data", spark) == expected
    assert {"insert_log.entry_written", "catalog.written", "ledger.written"} <= deaths.keys()


def test_an_unchanged_create_counts_as_applied_whoever_ran_it(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.sql("CREATE TABLE t (a BIGINT)")
        db.run_script("CREATE TABLE  t\n(a BIGINT);")
        with pytest.raises(tidegate.Error, match="was created with another definition"):
            db.run_script("CREATE TABLE t (a BIGINT, b BIGINT);")


def test_drop_of_an_unknown_relation_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.connect(tmp_path / "data", spark=spark) as db:
        db.run_script("CREATE TABLE t (a BIGINT); DROP TABLE t;")
        for name in ("t", "u"):
            with pytest.raises(tidegate.Error) as caught:
                db.sql(f"DROP TABLE {name}")
            assert caught.value.code == "UNKNOWN_RELATION"
