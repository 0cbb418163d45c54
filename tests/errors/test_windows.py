"""Errors of windows and of comparisons with NOW(): the whole text, caret included. Each case in `windows.cases` has one
mistake. `UPDATE_ERRORS=1` writes the current texts: read them as a user would."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate.bind import Analyzer
from tidegate.catalog import Catalog
from tidegate.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).with_name("windows.cases")
BETWEEN, BEFORE = "\n=====\n", "\n-----\n"
CASES = [tuple(case.strip("\n").partition(BEFORE)[::2]) for case in FILE.read_text().split(BETWEEN)]
OTHERS = """
CREATE SOURCE readings (
  id INT, made TIMESTAMP, stored TIMESTAMP, millis BIGINT, text STRING, value DOUBLE,
  WATERMARK FOR made, WATERMARK FOR stored
);
CREATE MATERIALIZED VIEW per_second AS
  SELECT item, window_start, window_end, SUM(price) AS total
  FROM TUMBLE(bids, ts, INTERVAL '1' SECOND) GROUP BY item, window_start, window_end;
"""


@pytest.fixture(scope="module")
def analyzer(spark: SparkSession) -> Analyzer:
    from tidegate.spark.analyzer import SparkAnalyzer

    return SparkAnalyzer(spark)


@pytest.fixture(scope="module")
def catalog(analyzer: Analyzer) -> Catalog:
    return apply(RELATIONS + OTHERS, Catalog(), analyzer)


@pytest.mark.parametrize(("sql", "expected"), CASES, ids=[sql.replace("\n", " ")[:80] for sql, _ in CASES])
def test_text(sql: str, expected: str, catalog: Catalog, analyzer: Analyzer) -> None:
    actual = _error_text(sql, catalog, analyzer)
    if os.environ.get("UPDATE_ERRORS"):
        FILE.write_text(FILE.read_text().replace(sql + BEFORE + expected, sql + BEFORE + actual))
        expected = actual
    assert actual == expected


def _error_text(sql: str, catalog: Catalog, analyzer: Analyzer) -> str:
    with pytest.raises(Error) as caught:
        apply(f"CREATE MATERIALIZED VIEW x AS\n{sql}", catalog, analyzer)
    return str(caught.value)
