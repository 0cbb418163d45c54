"""Schemas of ours as Spark's and Arrow's."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from tidegate.core.schema import Schema


@lru_cache(maxsize=4096)
def spark_type(name: str) -> DataType:
    """Spark's type for its simple name."""
    return DataType.fromDDL(name)


def struct_type(schema: Schema) -> StructType:
    """A Spark schema. Everything is nullable: what is not is a promise of a relation, not of its rows in flight."""
    return StructType([StructField(column.name, spark_type(column.type), True) for column in schema])


def arrow_type(name: str) -> pa.DataType:
    return to_arrow_type(spark_type(name), timezone="UTC")


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in schema])
