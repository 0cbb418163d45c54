"""Bound plans of windows and of comparisons with NOW(): `windows.cases`, one node per line. `UPDATE_PLANS=1` writes the
current plans: read the difference before you commit it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate.bind import Analyzer
from tidegate.bind.context import Context
from tidegate.bind.query import bind_query
from tidegate.catalog import Catalog
from tidegate.compile import view_rows
from tidegate.plan import Node
from tidegate.plan.labels import label
from tidegate.sql import parse
from tidegate.sql.statements import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).with_name("windows.cases")
BETWEEN, BEFORE = "\n=====\n", "\n-----\n"
CASES = [tuple(case.strip("\n").partition(BEFORE)[::2]) for case in FILE.read_text().split(BETWEEN)]
VIEWS = """
CREATE MATERIALIZED VIEW per_second AS
  SELECT item, window_start, window_end, SUM(price) AS total
  FROM TUMBLE(bids, ts, INTERVAL '1' SECOND) GROUP BY item, window_start, window_end;
"""


@pytest.fixture(scope="module")
def context(spark: SparkSession) -> Context:
    from tidegate.spark.analyzer import SparkAnalyzer

    analyzer: Analyzer = SparkAnalyzer(spark)
    catalog = apply(RELATIONS + VIEWS, Catalog(), analyzer)
    return Context(catalog, analyzer, lambda view: view_rows(view, catalog, analyzer), lateness=60_000_000)


@pytest.mark.parametrize(("sql", "expected"), CASES, ids=[sql.replace("\n", " ")[:80] for sql, _ in CASES])
def test_plan(sql: str, expected: str, context: Context) -> None:
    (statement,) = parse(sql).statements
    assert isinstance(statement, Select)
    bound = bind_query(statement.query.select, context)
    actual = "\n".join([", ".join(field.name for field in bound.fields), *_lines(bound.plan, 1)])
    if os.environ.get("UPDATE_PLANS"):
        FILE.write_text(FILE.read_text().replace(sql + BEFORE + expected, sql + BEFORE + actual))
        expected = actual
    assert actual == expected


def _lines(node: Node, depth: int) -> Iterator[str]:
    yield "  " * depth + label(node)
    for below in node.inputs:
        yield from _lines(below, depth + 1)
