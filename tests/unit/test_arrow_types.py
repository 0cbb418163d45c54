"""Spark types as Arrow types: the same as Spark's own conversion."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from tidegate.core.arrow_types import arrow_type, spark_name
from tidegate.errors import Error

TYPES = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,18)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "interval day to second",
    "array<bigint>",
    "map<string,double>",
    "struct<a:bigint,b:array<struct<c:decimal(5,1),d:map<int,timestamp>>>>",
]


@pytest.mark.parametrize("name", TYPES)
def test_equals_what_spark_does(spark: SparkSession, name: str) -> None:
    spark_type = DataType.fromDDL(name)
    assert arrow_type(spark_type.simpleString()) == to_arrow_type(spark_type, timezone="UTC")


@pytest.mark.parametrize("name", [*TYPES, "time(6)"])
def test_the_name_leads_back_to_the_type(name: str) -> None:
    assert arrow_type(spark_name(arrow_type(name))) == arrow_type(name)


def test_fields_may_be_quoted_and_required() -> None:
    found = arrow_type("struct<`a b`:int not null comment 'x',c:string>")
    assert [(field.name, field.nullable) for field in found.fields] == [("a b", False), ("c", True)]


@pytest.mark.parametrize("name", ["interval year to month", "variant", "array<bigint", "bigint string", ""])
def test_what_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(Error) as refused:
        arrow_type(name)
    assert refused.value.code == "NOT_SUPPORTED"
    assert refused.value.message == f"columns of type {name} cannot be stored"
