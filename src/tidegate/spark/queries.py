"""Ad-hoc queries: Spark SQL as a batch over tables that are at hand as Arrow."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.catalog.schema import Schema
from tidegate.spark.conditions import error_of, quiet
from tidegate.spark.types import arrow_schema, struct_type


class Queries:
    """Runs SELECTs in a session of their own, so that temporary names meet nobody else's."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        for key in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"):
            self._spark.conf.set(key, spark.conf.get(key) or "")
        self._lock = threading.Lock()

    def run(self, sql: str, tables: Mapping[str, tuple[Schema, pa.Table]]) -> pa.Table:
        """The rows of a query over tables under the names it uses."""
        with self._lock:
            for name, (schema, table) in tables.items():
                frame = self._spark.createDataFrame(table.cast(arrow_schema(schema)), struct_type(schema))
                frame.createOrReplaceTempView(name)
            try:
                with quiet():
                    return self._spark.sql(sql).toArrow()
            except PySparkException as failure:
                raise error_of(failure) from None
            finally:
                for name in tables:
                    self._spark.catalog.dropTempView(name)
