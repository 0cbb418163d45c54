"""Types of columns: those that a relation can declare, and those that only expressions have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A type: how a column `v` of it is declared, three values, and the expression over the column that has the
    type; also what to ask Spark for where it compares rows, if that differs."""

    declared: str
    values: tuple[str, str, str]
    expression: str = "v"
    of_spark: str | None = None


NUMBERS = ("1", "2", "3")
TEXTS = ("'a'", "'A'", "'b'")


def computed(expression: str) -> Kind:
    """The type of an expression over numbers."""
    return Kind("INT", NUMBERS, expression)


DECLARED = {
    "boolean": Kind("BOOLEAN", ("true", "false", "NULL")),
    "tinyint": Kind("TINYINT", ("1", "-128", "127")),
    "smallint": Kind("SMALLINT", ("1", "-32768", "32767")),
    "int": Kind("INT", ("0", "-2147483648", "2147483647")),
    "bigint": Kind("BIGINT", ("0", "9223372036854775807", "-5")),
    "float": Kind("FLOAT", ("CAST(0.5 AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST('-Infinity' AS FLOAT)")),
    "double": Kind("DOUBLE", ("0.0D", "-0.0D", "1.5D")),
    "small decimal": Kind("DECIMAL(5, 2)", ("1.5", "999.99", "-2")),
    "wide decimal": Kind("DECIMAL(38, 10)", ("1.5", "9999999999999999999999999999.0", "-2")),
    "decimal without fraction": Kind("DECIMAL(38, 0)", ("1", "99999999999999999999999999999999999999", "-2")),
    "decimal of fractions": Kind("DECIMAL(38, 38)", ("0.5", "0.00000000000000000000000000000000000001", "-0.5")),
    "string": Kind("STRING", TEXTS),
    "char": Kind("CHAR(3)", TEXTS),
    "varchar": Kind("VARCHAR(3)", TEXTS),
    "text with a collation": Kind("STRING COLLATE UTF8_LCASE", TEXTS),
    "binary": Kind("BINARY", ("X'00FF'", "X''", "X'FE'")),
    "date": Kind("DATE", ("DATE '2024-02-29'", "DATE '0001-01-01'", "DATE '9999-12-31'")),
    "timestamp": Kind(
        "TIMESTAMP", ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '1900-01-01 00:00:00'", "TIMESTAMP '2030-12-31'")
    ),
    "timestamp without zone": Kind(
        "TIMESTAMP_NTZ",
        ("TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '1900-01-01 00:00:00'", "TIMESTAMP_NTZ '2030-12-31'"),
    ),
    "time": Kind("TIME", ("TIME '01:00:00'", "TIME '00:00:00'", "TIME '23:59:59.999999'")),
    "time of seconds": Kind("TIME(0)", ("TIME '01:00:00'", "TIME '00:00:00'", "TIME '23:59:59'")),
    "days to seconds": Kind(
        "INTERVAL DAY TO SECOND",
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '-1' DAY", "INTERVAL '0' SECOND"),
    ),
    "hours": Kind("INTERVAL HOUR", ("INTERVAL '1' HOUR", "INTERVAL '-30' HOUR", "INTERVAL '0' HOUR")),
    "years to months": Kind(
        "INTERVAL YEAR TO MONTH", ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-1' YEAR", "INTERVAL '0' MONTH")
    ),
    "interval": Kind("INTERVAL", ("make_interval(1)", "make_interval(2)", "make_interval(3)")),
    "variant": Kind("VARIANT", ("parse_json('1')", "parse_json('[2]')", "parse_json('3')")),
    "void": Kind("VOID", ("NULL", "NULL", "NULL")),
    "map": Kind("MAP<STRING, BIGINT>", ("map('a', 1)", "map('b', 2)", "map('a', 1, 'b', 2)")),
    "map of arrays": Kind(
        "MAP<DATE, ARRAY<DOUBLE>>",
        (
            "map(DATE '2024-01-01', array(1.5D))",
            "map(DATE '2024-01-01', NULL)",
            "CAST(map() AS MAP<DATE, ARRAY<DOUBLE>>)",
        ),
    ),
    "struct of map": Kind(
        "STRUCT<m: MAP<STRING, BIGINT>>",
        ("named_struct('m', map('a', 1))", "named_struct('m', map('b', 2))", "named_struct('m', NULL)"),
    ),
    "array of map": Kind("ARRAY<MAP<STRING, BIGINT>>", ("array(map('a', 1))", "array(map('b', 2))", "array()")),
    "struct": Kind(
        "STRUCT<a: BIGINT, b: STRING>",
        ("named_struct('a', 1, 'b', 'x')", "named_struct('a', 2, 'b', NULL)", "named_struct('a', NULL, 'b', 'y')"),
    ),
    "struct of struct": Kind(
        "STRUCT<a: STRUCT<b: DECIMAL(38, 18)>, t: TIMESTAMP>",
        (
            "named_struct('a', named_struct('b', 1.5), 't', TIMESTAMP '2024-01-01')",
            "named_struct('a', named_struct('b', NULL), 't', NULL)",
            "named_struct('a', NULL, 't', TIMESTAMP '1900-01-01')",
        ),
    ),
    "struct of misleading names": Kind(
        "STRUCT<`variant`: INT, `interval`: INT, `void`: INT, `map`: INT>",
        (
            "named_struct('variant', 1, 'interval', 2, 'void', 3, 'map', 4)",
            "named_struct('variant', NULL, 'interval', 2, 'void', 3, 'map', 4)",
            "named_struct('variant', 1, 'interval', 3, 'void', 3, 'map', NULL)",
        ),
    ),
    "struct of times": Kind(
        "STRUCT<d: INTERVAL DAY TO SECOND, z: TIMESTAMP_NTZ, t: TIME>",
        (
            "named_struct('d', INTERVAL '1' DAY, 'z', TIMESTAMP_NTZ '2024-01-01', 't', TIME '01:00:00')",
            "named_struct('d', NULL, 'z', TIMESTAMP_NTZ '1900-01-01', 't', NULL)",
            "named_struct('d', INTERVAL '-1' DAY, 'z', NULL, 't', TIME '00:00:00')",
        ),
    ),
    "struct without fields": Kind("STRUCT<>", ("struct()", "struct()", "struct()")),
    "struct of variant": Kind("STRUCT<x: VARIANT>", ("NULL", "NULL", "NULL")),
    "array": Kind("ARRAY<BIGINT>", ("array(1, 2)", "array(NULL, 3)", "array()")),
    "array of struct": Kind(
        "ARRAY<STRUCT<a: BIGINT, t: DATE>>",
        ("array(named_struct('a', 1, 't', DATE '2024-01-01'))", "array(named_struct('a', NULL, 't', NULL))", "array()"),
    ),
    "array of array": Kind("ARRAY<ARRAY<STRING>>", ("array(array('x'))", "array(array(), array(NULL))", "array()")),
    "array of binary": Kind("ARRAY<BINARY>", ("array(X'00')", "array(X'', NULL)", "array()")),
    "array of decimal": Kind("ARRAY<DECIMAL(38, 10)>", ("array(1.5)", "array(-1.5, NULL)", "array()")),
}
COMPUTED = {
    "a variant": Kind("STRING", ("'1'", "'[2]'", "'3'"), "parse_json(v)"),
    "an array of variants": Kind("STRING", ("'1'", "'[2]'", "'3'"), "array(parse_json(v))"),
    "a collation": Kind("STRING", TEXTS, "collate(v, 'UTF8_LCASE')"),
    "a collation of a cast": Kind("STRING", TEXTS, "CAST(v AS STRING COLLATE UTF8_LCASE)"),
    "a cast to CHAR": Kind("STRING", TEXTS, "CAST(v AS CHAR(2))"),
    "a cast to VARCHAR": Kind("STRING", TEXTS, "CAST(v AS VARCHAR(2))"),
    "months": computed("make_ym_interval(0, v)"),
    "years": computed("v * INTERVAL '1' YEAR"),
    "a mixed interval": computed("make_interval(v)"),
    "days": computed("make_dt_interval(v)"),
    "a difference of dates": computed("date_add(DATE '2024-01-01', v) - DATE '2024-01-01'"),
    "a difference of times": Kind(
        "TIMESTAMP",
        ("TIMESTAMP '2024-01-01'", "TIMESTAMP '1900-01-01'", "TIMESTAMP '2030-12-31'"),
        "v - TIMESTAMP '2024-01-01'",
    ),
    "an array of days": computed("array(make_dt_interval(v), NULL)"),
    "an array of months": computed("array(make_ym_interval(v))"),
    "a map of days": computed("map(coalesce(v, 0), make_dt_interval(v))"),
    "a time of day": computed("make_time(v, 0, 0)"),
    "an array of times": computed("array(make_time(v, 0, 0))"),
    # Joins of Spark, EXCEPT and INTERSECT too, do not find a NULL without a type equal to another.
    "NULL": Kind("INT", NUMBERS, "NULL", of_spark="CAST(NULL AS STRING)"),
    "an array of nothing": computed("array()"),
    "an array of NULL": computed("array(NULL)"),
    "a map of nothing": computed("map()"),
    "a struct of NULL": computed("if(v > 0, named_struct('a', NULL, 'b', v), NULL)"),
    "an unnamed struct": computed("if(v > 0, struct(v, v + 1), NULL)"),
    "a struct with a name twice": computed("named_struct('a', v, 'a', v)"),
    "a struct without fields at all": computed("struct()"),
    "a constant": computed("X'00'"),
    "a decimal product": computed("CAST(v AS DECIMAL(38, 18)) * CAST(1.5 AS DECIMAL(38, 18))"),
}
KINDS = DECLARED | COMPUTED
