"""The tree of data types: Spark's names, and the Arrow and Polars types that hold the values."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from tidegate.core.types import (
    Type,
    arrow_type,
    from_arrow,
    has_map,
    name_from_json,
    not_stored,
    parse_type,
    polars_type,
    spark_name,
    to_arrow,
    to_polars,
    without_void,
)
from tidegate.errors import Error

SIMPLE: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "tinyint": spark.ByteType(),
    "smallint": spark.ShortType(),
    "int": spark.IntegerType(),
    "bigint": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
    "interval day to second": spark.DayTimeIntervalType(),
    "interval hour to minute": spark.DayTimeIntervalType(1, 2),
    "void": spark.NullType(),
}
NAMES = st.text("abz_AZ09 `.:<>,", min_size=1, max_size=5).filter(lambda name: bool(name.strip()))


def decimals() -> st.SearchStrategy[Type]:
    digits = st.integers(1, 38).flatmap(lambda all_: st.tuples(st.just(all_), st.integers(0, all_)))
    return digits.map(lambda chosen: Type("decimal", digits=chosen))


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda each: Type("array", (each,))),
        st.tuples(inner.filter(lambda key: key.name != "void"), inner).map(lambda both: Type("map", both)),
        fields.map(lambda chosen: Type("struct", tuple(chosen.values()), tuple(chosen))),
    )


TYPES = st.recursive(st.one_of(st.sampled_from(sorted(SIMPLE)).map(Type), decimals()), nested, max_leaves=8)


def to_spark(kind: Type) -> spark.DataType:
    """The type as one of pyspark, which needs no session."""
    inner = [to_spark(each) for each in kind.inner]
    match kind.name:
        case "decimal":
            return spark.DecimalType(*kind.digits)
        case "array":
            return spark.ArrayType(inner[0])
        case "map":
            return spark.MapType(inner[0], inner[1])
        case "struct":
            fields = zip(kind.fields, inner, strict=True)
            return spark.StructType([spark.StructField(name, each) for name, each in fields])
    return SIMPLE[kind.name]


def without_maps(kind: Type) -> Type:
    """The type with every map as a list of its entries, as it is stored in state."""
    inner = tuple(without_maps(each) for each in kind.inner)
    if kind.name == "map":
        return Type("array", (Type("struct", inner, ("key", "value")),))
    return Type(kind.name, inner, kind.fields, kind.digits)


@given(TYPES)
@settings(deadline=None)
def test_arrow_types_equal_those_of_spark(kind: Type) -> None:
    assert to_arrow(kind) == to_arrow_type(to_spark(kind), timezone="UTC")


@given(TYPES)
@settings(deadline=None)
def test_polars_types_equal_those_of_arrow_columns(kind: Type) -> None:
    column = pl.from_arrow(pa.array([], to_arrow(without_maps(kind))))
    assert isinstance(column, pl.Series)
    assert to_polars(kind) == column.dtype


@given(TYPES)
@settings(deadline=None)
def test_names_are_parsed_to_the_same_type(kind: Type) -> None:
    assert parse_type(str(kind)) == kind
    assert parse_type(kind.render(upper=True)) == kind


@given(TYPES)
@settings(deadline=None)
def test_names_equal_those_of_sparks_json(kind: Type) -> None:
    assert name_from_json(to_spark(kind).jsonValue()) == str(kind)


@given(TYPES)
@settings(deadline=None)
def test_arrow_types_convert_back_to_the_type(kind: Type) -> None:
    assert to_arrow(from_arrow(to_arrow(kind))) == to_arrow(kind)
    assert arrow_type(spark_name(to_arrow(kind))) == to_arrow(kind)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LONG", "bigint"),
        ("byte", "tinyint"),
        ("varchar(10)", "string"),
        ("char(3)", "string"),
        ("string collate UTF8_LCASE", "string"),
        ("numeric(5)", "decimal(5,0)"),
        ("decimal", "decimal(10,0)"),
        ("timestamp_ltz", "timestamp"),
        ("Array< Struct< a : INT , b: String > >", "array<struct<a:int,b:string>>"),
        ("struct<a int, `b``c` bigint>", "struct<a:int,`b``c`:bigint>"),
        ("interval hour", "interval hour"),
        ("time(6)", "time(6)"),
        ("variant", "variant"),
        ("interval year to month", "interval year to month"),
    ],
)
def test_other_spellings(text: str, name: str) -> None:
    assert str(parse_type(text)) == name


def test_types_are_rendered_in_capitals_except_field_names() -> None:
    assert parse_type("struct<a:decimal(5,1),`b c`:array<int>>").render(upper=True) == (
        "STRUCT<a:DECIMAL(5,1),`b c`:ARRAY<INT>>"
    )
    assert spark_name(pa.time64("ns")) == "TIME"
    assert spark_name(pa.large_string()) == "STRING"
    assert spark_name(pa.uint8()) == "uint8"


def test_fields_may_be_quoted_and_required() -> None:
    struct = arrow_type("struct<`a b`:int not null comment 'x',c:string>")
    assert isinstance(struct, pa.StructType)
    assert [(field.name, field.nullable) for field in struct.fields] == [("a b", False), ("c", True)]


@pytest.mark.parametrize(
    "name", ["interval year to month", "interval", "variant", "array<variant>", "array<bigint", "bigint string", ""]
)
def test_types_that_cannot_be_stored_are_rejected(name: str) -> None:
    for convert in (arrow_type, polars_type):
        with pytest.raises(Error) as caught:
            convert(name)
        assert caught.value.code == "NOT_SUPPORTED"
        assert caught.value.message == f"columns of type {name} cannot be stored"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("array<variant>", "variant"),
        ("map<string,interval year to month>", "interval year to month"),
        ("struct<a:struct<>>", "struct"),
        ("geometry(4326)", "geometry(4326)"),
        ("struct<variant:int,`interval`:int,void:int>", None),
        ("array<interval hour>", None),
        ("array<void>", None),
    ],
)
def test_a_type_that_cannot_be_stored_is_found_inside_of_others(name: str, part: str | None) -> None:
    assert not_stored(name) == part


def test_void_becomes_text_and_fields_of_that_name_stay() -> None:
    assert without_void("struct<void:array<void>>") == "struct<void:array<string>>"
    assert without_void("struct<void:int>") == "struct<void:int>"


def test_a_field_named_map_is_no_map() -> None:
    assert not has_map("struct<map:int,`map<`:int>")
    assert has_map("array<struct<a:map<int,int>>>")
