"""Ad-hoc queries: Spark SQL as a batch over Arrow tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.core.schema import Schema
from tidegate.core.types import nullable_schema
from tidegate.errors import Error, did_you_mean, make
from tidegate.spark.compat import rows_of
from tidegate.spark.conditions import error_of, quiet
from tidegate.spark.types import struct_type


class Queries:
    """Runs SELECTs in a separate session, so that names of temporary views do not clash with others."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"):
            self._spark.conf.set(key, spark.conf.get(key) or "")
        self._lock = threading.Lock()

    def run(
        self, sql: str, tables: Mapping[str, tuple[Schema, pa.Table]], arguments: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of a query over tables under the names it uses. `arguments`: the values of its parameters."""
        with self._lock:
            for name, (schema, table) in tables.items():
                self._frame(schema, table).createOrReplaceTempView(name)
            try:
                with quiet():
                    return rows_of(self._spark.sql(sql, args=dict(arguments or {}) or None))
            except (PySparkException, Py4JJavaError) as failure:
                raise _explained(failure, tables) from None
            except (pa.ArrowException, ValueError) as failure:
                hint = "CAST the column to the type that is meant, or leave it out"
                message, detail = "the types of this result have no values outside of Spark", str(failure)
                raise make("NOT_SUPPORTED", message=message, detail=detail, hint=hint) from failure
            finally:
                for name in tables:
                    self._spark.catalog.dropTempView(name)

    def _frame(self, schema: Schema, table: pa.Table) -> DataFrame:
        """A Spark frame of a table. PySpark cannot read columns without chunks, which empty tables may have."""
        arrow = nullable_schema(schema)
        cast = table.cast(arrow) if table.num_rows else arrow.empty_table()
        return self._spark.createDataFrame(cast, struct_type(schema))


def _explained(failure: PySparkException | Py4JJavaError, tables: Mapping[str, tuple[Schema, pa.Table]]) -> Error:
    """Our error for an error of Spark, with the nearest column names as a hint."""
    error = error_of(failure)
    if error.code == "UNKNOWN_COLUMN" and not error.hint:
        columns = dict.fromkeys(column.name for schema, _ in tables.values() for column in schema)
        error.hint = did_you_mean(error.message.split()[-1], columns, "columns")
    return error
