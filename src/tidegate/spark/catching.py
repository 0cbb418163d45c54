"""Columns that are NULL where an expression fails, whatever the failure is."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from tidegate.spark.compat import CatchingExpressions

SOURCE = Path(__file__).with_name("CatchingExpression.java")
CLASS = "tidegate.CatchingExpression"
ROW_SECONDS = 5
"""The CPU time that an expression has for a row, as it stands in SOURCE."""

_of_context: WeakKeyDictionary[SparkContext, tuple[CatchingExpressions, TemporaryDirectory[str]]] = WeakKeyDictionary()
"""With the folder of the compiled class, from which executors fetch it as long as the application runs."""


def catching(session: SparkSession, sql: str) -> Column:
    """An expression as a column that is NULL where it fails: by an exception, a full stack, too little memory, or
    because it takes more than ROW_SECONDS for one row."""
    context = session.sparkContext
    if context not in _of_context:
        folder = TemporaryDirectory(prefix="tidegate-")
        made = CatchingExpressions(session, SOURCE.read_text(), CLASS, Path(folder.name) / "catching.jar")
        _of_context[context] = made, folder
    return _of_context[context][0].column(sql)
