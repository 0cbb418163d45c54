"""Aggregates over any values, odd groups and keys of joins: no step fails, and deleting every row leaves nothing."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import tidegate
from tests.model.hostile_rows.rows import COLUMNS, random_row
from tidegate import Database
from tidegate.errors import Error, SqlError
from tidegate.kernels.aggregates import FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40
SHAPES = (
    "SELECT {key} AS key, {call} AS v FROM h GROUP BY {key}",
    "SELECT {call} AS v FROM h",
    "SELECT {key} AS key, {call} AS v FROM h WHERE id % 3 > 0 GROUP BY {key} HAVING COUNT(*) > 1",
    "SELECT window_start, {call} AS v FROM TUMBLE(h, u, INTERVAL '1' DAY) GROUP BY window_start",
)


def test_some_aggregates_survive_new_hostile_rows(
    spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    check(spark, tmp_path, int(pytestconfig.getoption("hypothesis_seed")), 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_aggregates_survive_hostile_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, seed, 80)


def check(spark: SparkSession, folder: Path, seed: int, count: int) -> None:
    random = Random(seed)
    rows = [random_row(number, random) for number in range(ROWS)]
    with tidegate.connect(folder / "data", spark=spark) as db:
        columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
        db.sql(f"CREATE TABLE h (id INT PRIMARY KEY, {columns})")
        tried = (create(db, f"v{number}", random) for number in range(10 * count))
        created = list(islice((view for view in tried if view is not None), count))
        assert len(created) == count
        for first in range(0, ROWS, ROWS // 2):
            db.insert("h", rows[first : first + ROWS // 2])
            db.step()
        for view, _ in created:
            db.query(f"SELECT * FROM {view}").rows()
        db.delete("h", [{"id": row["id"]} for row in rows])
        db.step()
        assert {view: len(db.query(f"SELECT * FROM {view}").rows()) for view, _ in created} == {
            view: int(is_global) for view, is_global in created
        }


def create(db: Database, view: str, random: Random) -> tuple[str, bool] | None:
    """The view, and whether it has a row without input; None if it is rejected."""
    name, names = random.choice(sorted(FUNCTIONS)), list(COLUMNS)
    arguments = ", ".join(random.choice(names) for _ in range(random.choice((1, 1, 1, 2))))
    distinct = "DISTINCT " if random.random() < 0.2 else ""
    shape = random.choice(SHAPES)
    sql = shape.format(key=random.choice(names), call=f"{name}({distinct}{arguments})")
    try:
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS {sql}")
    except Error as problem:
        assert isinstance(problem, SqlError), (sql, problem)
        return None
    return view, "GROUP BY" not in shape
