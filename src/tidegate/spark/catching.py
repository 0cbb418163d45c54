"""Columns that are NULL where an expression fails, whatever the failure is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from tidegate.spark.compat import CatchingExpressions

SOURCE = Path(__file__).with_name("CatchingExpression.java")
CLASS = "tidegate.CatchingExpression"

_of_context: WeakKeyDictionary[SparkContext, CatchingExpressions] = WeakKeyDictionary()


def catching(session: SparkSession, sql: str) -> Column:
    """An expression as a column that is NULL where it fails: by an exception, a full stack, or too little memory."""
    context = session.sparkContext
    if context not in _of_context:
        jar = Path(tempfile.mkdtemp(prefix="tidegate-")) / "catching.jar"
        _of_context[context] = CatchingExpressions(session, SOURCE.read_text(), CLASS, jar)
    return _of_context[context].column(sql)
