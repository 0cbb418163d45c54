"""SQL -> EXPLAIN, for every stage after parsing: `cases/*.plan`.

A file has a title, statements, and the EXPLAIN output of the last relation. `UPDATE_PLANS=1` writes the current output:
read the difference before you commit it. Ids of ops are replaced by numbers, so that a plan does not depend on hashes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate import bind, compile
from tidegate.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = sorted((Path(__file__).parent / "cases").glob("*.plan"))
STAGES = ("bound", "rewritten", "circuit")


@pytest.fixture(scope="module")
def analyzer(spark: SparkSession) -> bind.Analyzer:
    from tidegate.spark.analyzer import SparkAnalyzer

    return SparkAnalyzer(spark)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_plan(path: Path, analyzer: bind.Analyzer) -> None:
    sql = path.read_text().split("\n== ")[0]
    actual = sql + "".join(f"\n== {stage}\n{text}\n" for stage, text in _explain(sql, analyzer))
    if os.environ.get("UPDATE_PLANS"):
        path.write_text(actual)
    assert actual == path.read_text()


def test_there_are_cases() -> None:
    assert len(CASES) >= 25


def _explain(sql: str, analyzer: bind.Analyzer) -> list[tuple[str, str]]:
    catalog = apply(sql, apply(RELATIONS, Catalog(), analyzer), analyzer)
    last = catalog.relations[-1]
    return [(stage, _number_ids(str(compile.explain_relation(last, catalog, analyzer, stage)))) for stage in STAGES]


def _number_ids(text: str) -> str:
    ids = dict.fromkeys(re.findall(r"\b[0-9a-f]{12}\b", text))
    for number, each in enumerate(ids, start=1):
        text = text.replace(each, f"op{number}")
    return text
