"""Type names of several dialects are mapped to Spark's."""

from __future__ import annotations

import pytest

from tests.sql.reading import error_of, one
from tidegate.sql.statements import CreateRelation


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("STRING", "string"),
        ("varchar", "string"),
        ("VARCHAR(10)", "string"),
        ("CHARACTER VARYING(10)", "string"),
        ("TEXT", "string"),
        ("CHAR(3)", "string"),
        ("TINYINT", "tinyint"),
        ("SMALLINT", "smallint"),
        ("INT", "int"),
        ("INTEGER", "int"),
        ("BIGINT", "bigint"),
        ("LONG", "bigint"),
        ("REAL", "float"),
        ("FLOAT", "float"),
        ("DOUBLE", "double"),
        ("DOUBLE PRECISION", "double"),
        ("NUMERIC", "decimal(10,0)"),
        ("DECIMAL(10)", "decimal(10,0)"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("BOOLEAN", "boolean"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP(3)", "timestamp"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp"),
        ("TIMESTAMP WITH TIME ZONE", "timestamp"),
        ("TIMESTAMP WITHOUT TIME ZONE", "timestamp"),
        ("TIMESTAMPTZ", "timestamp"),
        ("TIMESTAMP_LTZ", "timestamp"),
        ("TIMESTAMP_LTZ(3)", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("BINARY", "binary"),
        ("VARBINARY(16)", "binary"),
        ("BYTES", "binary"),
        ("ARRAY<STRING>", "array<string>"),
        ("INT[]", "array<int>"),
        ("BYTES[]", "array<binary>"),
        ("INT ARRAY", "array<int>"),
        ("ARRAY<ARRAY<INT>>", "array<array<int>>"),
        ("MAP<STRING, BIGINT>", "map<string,bigint>"),
        ("STRUCT<a: INT, b: STRING>", "struct<a:int,b:string>"),
        ("STRUCT<a INT, b ARRAY<DOUBLE>>", "struct<a:int,b:array<double>>"),
        ("ROW(a INT, b DECIMAL(10, 2))", "struct<a:int,b:decimal(10,2)>"),
        ("ROW<a INT>", "struct<a:int>"),
        ("VARIANT", "variant"),
    ],
)
def test_spark_name(text: str, spark: str) -> None:
    create = one(CreateRelation, f"CREATE TABLE t (c {text} NOT NULL, d INT)")
    assert create.columns[0].type == spark
    assert not create.columns[0].nullable


def test_the_error_for_an_unknown_type_suggests_the_nearest() -> None:
    error = error_of("CREATE TABLE t (a BIGNIT)")
    assert error.code == "SYNTAX_ERROR"
    assert error.message == "there is no type BIGNIT"
    assert error.hint == "did you mean BIGINT?"


def test_unknown_types_inside_others() -> None:
    assert error_of("CREATE TABLE t (a ARRAY<FOO>)").message == "there is no type FOO"
    assert error_of("CREATE TABLE t (a ARRAY)").message == "ARRAY must say what it contains, not )"
