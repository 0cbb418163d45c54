"""Runs random statements on a database of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.model.random_statements.check import Checker, scripts_of
from tests.model.random_statements.generate import Generator
from tests.model.random_statements.words import RELATIONS
from tidegate.spark.analyzer import SETTINGS
from tidegate.spark.compat import AnalysisSession

SPECS = Path(__file__).parents[2] / "spec"


def run(spark: SparkSession, seed: int, count: int, outcomes: Counter[str]) -> Iterator[tuple[str, str]]:
    """(statement, what is wrong with its answer) of the random statements of a seed. `outcomes` counts the
    answers by their code."""
    functions = AnalysisSession(spark, SETTINGS).function_names()
    corpus = scripts_of([path.read_text() for path in sorted(SPECS.rglob("*.spec"))])
    generator = Generator(seed, functions, corpus)
    with tidegate.connect(spark=spark, clock="virtual") as db, tidegate.connect(spark=spark, clock="virtual") as bare:
        statements, scripts = Checker(db, RELATIONS), Checker(bare, "")
        for number in range(count):
            checker = scripts if number % 4 == 0 else statements
            text = generator.script() if checker is scripts else generator.statement()
            defect = checker.defect(text)
            if defect is not None:
                outcomes["defect"] += 1
                yield text, defect
        outcomes.update(statements.outcomes + scripts.outcomes)
