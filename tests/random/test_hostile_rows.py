"""Whatever the values of rows are, no scalar function of Spark ends a pipeline, and no row vanishes: a row is in a
view, or recorded as one for which its expression failed. New calls and rows follow from --hypothesis-seed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.model.hostile_rows.calls import calls
from tests.model.hostile_rows.rows import COLUMNS, random_row
from tidegate import Database
from tidegate.errors import Error, SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = 12
STEPS, ROWS = 2, 20


def test_some_functions_survive_new_hostile_rows(
    spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seed = int(pytestconfig.getoption("hypothesis_seed"))
    check(spark, tmp_path, Random(seed).sample(calls(), 30), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_function_survives_hostile_rows(spark: SparkSession, tmp_path: Path, part: int) -> None:
    check(spark, tmp_path, calls()[part::PARTS], part)


def check(spark: SparkSession, folder: Path, expressions: list[str], seed: int) -> None:
    with tidegate.connect(folder / "data", spark=spark) as db:
        columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
        db.sql(f"CREATE TABLE h (id INT, {columns})")
        views = {f"v{number}": sql for number, sql in enumerate(expressions)}
        created = {view: sql for view, sql in views.items() if create(db, view, sql)}
        assert len(created) > len(views) // 2
        random = Random(seed)
        for step in range(STEPS):
            db.insert("h", [random_row(step * ROWS + number, random) for number in range(ROWS)])
            db.step()
        failed = defaultdict(set)
        for view, row in db.query("SELECT view, get_json_object(row, '$.id') FROM system.errors").rows():
            failed[view].add(row and int(row))
        everything = set(range(STEPS * ROWS))
        lost = {
            sql: everything - kept - failed[view]
            for view, sql in created.items()
            for kept in [{row[0] for row in db.query(f"SELECT * FROM {view}").rows()}]
            if kept | failed[view] != everything or kept & failed[view]
        }
        assert not lost


def create(db: Database, view: str, sql: str) -> bool:
    """False if the call is rejected, as aggregates and types that cannot be stored are."""
    try:
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT id, {sql} AS v FROM h")
    except Error as problem:
        assert isinstance(problem, SqlError), (sql, problem)
        return False
    return True
