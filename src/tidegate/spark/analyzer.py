"""Types from Spark's analyser: expressions and queries over empty relations, in a session of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.core.schema import Column, Schema
from tidegate.core.types import name_from_json
from tidegate.errors import Error, did_you_mean, make
from tidegate.spark.catching import catching
from tidegate.spark.compat import AnalysisSession, collect_in_jvm, fields_of
from tidegate.spark.conditions import error_of, quiet, reason_of
from tidegate.spark.expressions import inside
from tidegate.spark.samples import TEXTS, sample_rows
from tidegate.spark.types import json_type

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.subexpressionElimination.enabled": "false",
}

ELSEWHERE = {
    **dict.fromkeys(("arg_max", "argmax", "arg_min", "argmin"), "MAX_BY(value, key) or MIN_BY(value, key)"),
    **dict.fromkeys(("countif", "count_where"), "COUNT_IF(condition)"),
    **dict.fromkeys(("latest_by_offset", "last_agg"), "LAST(value)"),
    "unnest": "rows of their own: insert one row per element",
    "earliest_by_offset": "FIRST(value)",
    "collect": "COLLECT_LIST(value)",
    "group_concat": "STRING_AGG(text, ',')",
    "histogram": "COUNT(*) with GROUP BY value",
    "topk": "ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ... DESC) <= k",
}
"""Functions of other systems, with their name in Spark."""


class SparkAnalyzer:
    """Analyses SQL in the JVM and caches the answers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session = AnalysisSession(spark, SETTINGS)
        self._frames: dict[Schema, Any] = {}
        self._registered: dict[str, Schema] = {}
        self._answers: dict[object, Schema | Error] = {}
        self._failures: dict[object, tuple[str | None, ...]] = {}

    def columns(self, schema: Schema, exprs: Sequence[str]) -> Schema:
        key = ("columns", schema, tuple(exprs))
        return self._ask_once(key, lambda: self._session.select(self._frame(schema), exprs))

    def query(self, sql: str, relations: Mapping[str, Schema]) -> Schema:
        key = ("query", sql, tuple(sorted(relations.items())))

        def ask() -> Any:
            for name, schema in relations.items():
                self._register(name, schema)
            return self._session.sql(sql)

        return self._ask_once(key, ask)

    def failures(self, schema: Schema, exprs: Sequence[str]) -> tuple[str | None, ...]:
        key = ("failures", schema, tuple(exprs))
        if key not in self._failures:
            self._failures[key] = self._try(sample_rows(schema), [inside(sql, None) for sql in exprs])
        return self._failures[key]

    def _try(self, rows: str, exprs: Sequence[str]) -> tuple[str | None, ...]:
        samples = DataFrame(self._session.sql(rows), self._spark)
        tried = [catching(self._spark, f"named_struct('v', {sql})").isNotNull() for sql in exprs]
        with quiet():
            try:
                answers = samples.select(*tried, "*").collect()  # Constants alone would be computed by a job.
                worked = [any(row[number] for row in answers) for number in range(len(exprs))]
            except (PySparkException, Py4JJavaError):
                worked = [False] * len(exprs)
            return tuple(None if fine else _reason(samples, sql) for fine, sql in zip(worked, exprs, strict=True))

    def literal(self, expr: str) -> object:
        with self._translate_errors():
            frame = DataFrame(self._session.sql(f"SELECT {expr}"), self._spark)
            return frame.collect()[0][0]

    def _ask_once(self, key: object, ask: Any) -> Schema:
        answer = self._answers.get(key)
        if answer is None:
            try:
                with self._translate_errors():
                    answer = _schema(ask())
            except Error as error:
                answer = error
            self._answers[key] = answer
        if isinstance(answer, Error):
            raise _copy(answer)
        return answer

    def _frame(self, schema: Schema) -> Any:
        """An empty relation with these columns."""
        if schema not in self._frames:
            fields = [
                {"name": column.name, "type": json_type(column.type), "nullable": column.nullable, "metadata": {}}
                for column in schema
            ]
            self._frames[schema] = self._session.empty_frame(fields)
        return self._frames[schema]

    def _register(self, name: str, schema: Schema) -> None:
        if self._registered.get(name) != schema:
            self._frame(schema).createOrReplaceTempView(name)
            self._registered[name] = schema

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate Spark's analysis errors to our own."""
        with quiet():
            try:
                yield
            except (AnalysisException, ParseException) as problem:
                raise self._error(problem) from None
            except (PySparkException, Py4JJavaError) as failure:
                raise self._error(failure) from failure

    def _error(self, problem: PySparkException | Py4JJavaError) -> Error:
        error = error_of(problem)
        if error.code == "UNKNOWN_FUNCTION":
            name = error.message.split()[-1]
            equivalent = ELSEWHERE.get(name.lower())
            error.hint = f"write {equivalent}" if equivalent else did_you_mean(name, self._functions) or error.hint
        return error

    @cached_property
    def _functions(self) -> tuple[str, ...]:
        return self._session.function_names()


def _copy(error: Error) -> Error:
    """The error without the place that a caller gave it."""
    copy = make(error.code, message=error.message, detail=error.detail, hint=error.hint)
    copy.near = error.near
    return copy


def _reason(samples: DataFrame, sql: str) -> str | None:
    """Why an expression fails for one of the samples, if it fails for all of them."""
    reason = None
    for row in range(len(TEXTS)):
        try:
            collect_in_jvm(samples.offset(row).limit(1).selectExpr(sql))
        except (PySparkException, Py4JJavaError) as problem:
            reason = reason or reason_of(problem)
        else:
            return None
    return reason


def _schema(frame: Any) -> Schema:
    return tuple(Column(field["name"], name_from_json(field["type"]), field["nullable"]) for field in fields_of(frame))
