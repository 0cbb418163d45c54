"""Types and schemas as pyspark's own objects."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from tidegate.core.schema import Schema


@lru_cache(maxsize=4096)
def spark_type(name: str) -> DataType:
    """Spark's type for its simple name."""
    return DataType.fromDDL(name)


def json_type(name: str) -> Any:
    """The JSON that Spark prints for a type."""
    return "void" if name == "void" else spark_type(name).jsonValue()


def struct_type(schema: Schema) -> StructType:
    """A Spark schema. Everything is nullable: what is not is a promise of a relation, not of its rows in flight."""
    return StructType([StructField(column.name, spark_type(column.type), True) for column in schema])
