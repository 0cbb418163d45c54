"""Values for `db.insert` are stored exactly, or rejected with row, column and value."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.schema import Column, Schema
from tidegate.errors import Error
from tidegate.runtime import values
from tidegate.runtime.values import coerce

BIDS: Schema = (Column("item", "string"), Column("price", "bigint", nullable=False), Column("ts", "timestamp"))
NOON = dt.datetime(2024, 5, 1, 12, 0, 3, 250000, tzinfo=dt.UTC)


@dataclass
class Bid:
    item: str
    price: int
    ts: dt.datetime | None = None


class NamedBid(NamedTuple):
    item: str
    price: int
    ts: dt.datetime | None = None


def one(value: Any, type_: str) -> Any:
    """A single value, converted for a column of a type."""
    table = coerce([(value,)], (Column("x", type_),), "t")
    assert table.schema.field("x").type == coerce([], (Column("x", type_),)).schema.field("x").type
    return table.column("x").to_pylist()[0]


def error_of(rows: Any, columns: Schema = BIDS) -> str:
    with pytest.raises(Error) as caught:
        coerce(rows, columns, "bids")
    return str(caught.value)


@pytest.mark.parametrize(
    "rows",
    [
        [{"item": "a", "price": 1, "ts": NOON}],
        {"item": "a", "price": 1, "ts": NOON},
        [{"ITEM": "a", "Price": 1, "ts": NOON}],
        [("a", 1, NOON)],
        ("a", 1, NOON),
        [["a", 1, NOON]],
        (row for row in [("a", 1, NOON)]),
        [Bid("a", 1, NOON)],
        Bid("a", 1, NOON),
        [NamedBid("a", 1, NOON)],
        NamedBid("a", 1, NOON),
        pa.table({"price": [1], "item": ["a"], "ts": [NOON]}),
        pa.RecordBatch.from_pydict({"price": [1], "item": ["a"], "ts": [NOON]}),
        pl.DataFrame({"price": [1], "item": ["a"], "ts": [NOON]}),
        pl.LazyFrame({"price": [1], "item": ["a"], "ts": [NOON]}),
        pd.DataFrame({"price": [1], "item": ["a"], "ts": [NOON]}),
    ],
)
def test_every_shape_of_rows_becomes_the_same_table(rows: Any) -> None:
    table = coerce(rows, BIDS, "bids")
    assert table.schema == pa.schema(
        [("item", pa.string()), pa.field("price", pa.int64(), nullable=False), ("ts", pa.timestamp("us", tz="UTC"))]
    )
    assert table.to_pylist() == [{"item": "a", "price": 1, "ts": NOON}]


def test_spark_rows_are_matched_by_name() -> None:
    from pyspark.sql import Row

    assert coerce([Row(price=1, item="a")], BIDS).to_pylist() == [{"item": "a", "price": 1, "ts": None}]


def test_no_rows_are_an_empty_table() -> None:
    assert coerce([], BIDS).num_rows == 0


def test_missing_names_are_null() -> None:
    assert coerce([{"price": 1}], BIDS).to_pylist() == [{"item": None, "price": 1, "ts": None}]
    assert coerce(pa.table({"price": [1]}), BIDS).to_pylist() == [{"item": None, "price": 1, "ts": None}]


def test_missing_values_of_pandas_are_null() -> None:
    frame = pd.DataFrame({"item": ["a", None], "price": pd.array([1, 2], "Int64"), "ts": [pd.NaT, NOON]})
    assert coerce(frame, BIDS).column("ts").to_pylist() == [None, NOON]
    assert coerce([{"price": 1, "ts": pd.NaT, "item": pd.NA}], BIDS).to_pylist()[0]["item"] is None


def test_pandas_columns_of_mixed_values_are_converted_one_by_one() -> None:
    assert error_of(pd.DataFrame({"item": ["a", "b"], "price": [1, "x"]})).startswith(
        "TYPE_MISMATCH: row 2, column price: 'x' is not a BIGINT"
    )


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (5, "double", 5.0),
        (Decimal("1.5"), "double", 1.5),
        (5.0, "bigint", 5),
        (np.int64(5), "bigint", 5),
        (np.float32(0.5), "double", 0.5),
        (-128, "tinyint", -128),
        ("2024-05-01 12:00:03.250", "timestamp", NOON),
        ("2024-05-01T14:00:03.250+02:00", "timestamp", NOON),
        (dt.datetime(2024, 5, 1, 12, 0, 3, 250000), "timestamp", NOON),
        (NOON.astimezone(dt.timezone(dt.timedelta(hours=2))), "timestamp", NOON),
        (np.datetime64("2024-05-01T12:00:03.250"), "timestamp", NOON),
        (pd.Timestamp(NOON), "timestamp", NOON),
        (dt.date(2024, 5, 1), "timestamp", dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
        (dt.datetime(2024, 5, 1, 1), "timestamp_ntz", dt.datetime(2024, 5, 1, 1)),
        ("2024-05-01", "date", dt.date(2024, 5, 1)),
        ("1.5", "decimal(10,2)", Decimal("1.50")),
        (0.1, "decimal(10,2)", Decimal("0.10")),
        (Decimal("12345678.90"), "decimal(10,2)", Decimal("12345678.90")),
        (0, "decimal(2,2)", Decimal("0.00")),
        (100, "decimal(3,0)", Decimal(100)),
        (Decimal("9" * 38), "decimal(38,0)", Decimal("9" * 38)),
        (Decimal("-0." + "9" * 38), "decimal(38,38)", Decimal("-0." + "9" * 38)),
        ("9" * 36 + ".990", "decimal(38,2)", Decimal("9" * 36 + ".99")),
        (bytearray(b"x"), "binary", b"x"),
        (dt.timedelta(seconds=1), "interval day to second", dt.timedelta(seconds=1)),
        (True, "boolean", True),
        ([1, None], "array<bigint>", [1, None]),
        (np.array([1, 2]), "array<int>", [1, 2]),
        ({"a": 1, "b": [{"c": "1.5"}]}, "struct<a:int,b:array<struct<c:decimal(5,2)>>>", None),
        ((1, "x"), "struct<a:int,b:string>", {"a": 1, "b": "x"}),
        ({"b": "x"}, "struct<a:int,b:string>", {"a": None, "b": "x"}),
        ({"k": 1}, "map<string,double>", [("k", 1.0)]),
        (None, "array<bigint>", None),
    ],
)
def test_values_that_fit(value: Any, type_: str, expected: Any) -> None:
    stored = one(value, type_)
    assert stored == ({"a": 1, "b": [{"c": Decimal("1.50")}]} if "c:decimal" in type_ else expected)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        ("5", "bigint", "'5' is not a BIGINT\n  hint: pass a BIGINT, or NULL (None) where there is none"),
        (True, "bigint", "True is not a BIGINT\n  hint: pass a BIGINT, or NULL (None) where there is none"),
        (1.5, "bigint", "1.5 is not a BIGINT\n  hint: pass a BIGINT, or NULL (None) where there is none"),
        (1, "boolean", "1 is not a BOOLEAN\n  hint: pass a BOOLEAN, or NULL (None) where there is none"),
        (1, "string", "1 is not a STRING\n  hint: pass a STRING, or NULL (None) where there is none"),
        ("1.5", "double", "'1.5' is not a DOUBLE\n  hint: pass a DOUBLE, or NULL (None) where there is none"),
        (2**31, "int", "2147483648 does not fit into INT\n  hint: it holds -2147483648 to 2147483647"),
        (
            2**63,
            "bigint",
            "9223372036854775808 does not fit into BIGINT\n"
            "  hint: it holds -9223372036854775808 to 9223372036854775807",
        ),
        (
            "1.239",
            "decimal(10,2)",
            "'1.239' does not fit into DECIMAL(10,2)\n  hint: it holds 8 digits before the point and 2 after it",
        ),
        (
            Decimal("0." + "0" * 37 + "12"),
            "decimal(38,38)",
            "1.2E-38 does not fit into DECIMAL(38,38)\n  hint: it holds 0 digits before the point and 38 after it",
        ),
        (
            Decimal("123456789"),
            "decimal(10,2)",
            "123456789 does not fit into DECIMAL(10,2)\n  hint: it holds 8 digits before the point and 2 after it",
        ),
        (
            "x",
            "decimal(10,2)",
            "'x' is not a DECIMAL(10,2)\n  hint: pass a DECIMAL(10,2), or NULL (None) where there is none",
        ),
        (
            "yesterday",
            "timestamp",
            "'yesterday' is not a TIMESTAMP\n  hint: write it as '2024-05-01 12:00:03.250', or pass a datetime",
        ),
        (
            1500,
            "timestamp",
            "1500 is not a TIMESTAMP\n  hint: write it as '2024-05-01 12:00:03.250', or pass a datetime",
        ),
        (
            NOON,
            "date",
            "2024-05-01 12:00:03.250000+00:00 is not a DATE\n  hint: write it as '2024-05-01', or pass a date",
        ),
        ("x", "binary", "'x' is not a BINARY\n  hint: encode text first: value.encode()"),
        (
            "ab",
            "array<string>",
            "'ab' is not a ARRAY<STRING>\n  hint: pass a ARRAY<STRING>, or NULL (None) where there is none",
        ),
    ],
)
def test_values_that_do_not_fit(value: Any, type_: str, text: str) -> None:
    assert error_of([(None,), (value,)], (Column("x", type_),)) == f"TYPE_MISMATCH: row 2, column x: {text}"


def test_errors_inside_nested_values_name_the_path() -> None:
    columns = (Column("x", "array<struct<city:string,zip:int>>"),)
    assert "row 1, column x[1].zip: 'a' is not a INT" in error_of([([{"zip": 1}, {"zip": "a"}],)], columns)
    assert error_of([([{"ciyt": "Rome"}],)], columns) == (
        "UNKNOWN_COLUMN: row 1, column x[0]: there is no field ciyt in ARRAY<STRUCT<city:STRING,zip:INT>>\n"
        "  hint: did you mean city?"
    )
    assert "row 1, column x['k']: 'a' is not a INT" in error_of([({"k": "a"},)], (Column("x", "map<string,int>"),))


def test_the_error_for_an_unknown_name_suggests_the_nearest() -> None:
    expected = (
        "UNKNOWN_COLUMN: {} has a value for pirce, but bids has no such column\n"
        "  detail: columns of bids: item, price, ts\n"
        "  hint: did you mean price?"
    )
    assert error_of([{"price": 1}, {"pirce": 1}]) == expected.format("row 2")
    assert error_of(pa.table({"pirce": [1]})) == expected.format("the table")


def test_a_wrong_number_of_values_is_rejected() -> None:
    assert error_of([("a", 1, None), ("a",)]) == (
        "TYPE_MISMATCH: row 2 has 1 value, bids has 3 columns\n"
        "  detail: columns of bids: item, price, ts\n"
        "  hint: pass dicts to leave columns out"
    )


def test_values_that_are_not_rows_are_rejected() -> None:
    assert error_of("a") == (
        "TYPE_MISMATCH: 'a' is not rows of bids\n"
        "  hint: pass a list of dicts or tuples, or an Arrow, Polars or pandas table"
    )
    assert error_of([("a", 1, None), 7]) == (
        "TYPE_MISMATCH: row 2: 7 is not a row of bids\n"
        "  hint: a row is a dict, or a tuple or list with one value per column"
    )


@pytest.mark.parametrize(
    "rows", [[{"price": 1}, {"item": "a"}], pa.table({"price": [1, None]}), pa.table({"item": ["a"]})]
)
def test_null_in_a_required_column_is_rejected(rows: Any) -> None:
    assert error_of(rows).endswith(
        "column price: NULL, but the column is NOT NULL\n  hint: give every row a value for price"
    )


@pytest.mark.parametrize(
    ("array", "type_", "expected"),
    [
        (pa.array([1], pa.int32()), "bigint", 1),
        (pa.array([1], pa.uint64()), "int", 1),
        (pa.array([1]), "decimal(10,2)", Decimal("1.00")),
        (pa.array([Decimal("1.5")]), "decimal(10,2)", Decimal("1.50")),
        (pa.array([2**60]), "double", float(2**60)),
        (pa.array([5.0]), "bigint", 5),
        (pa.array(["a"]).dictionary_encode(), "string", "a"),
        (pa.array(["a"], pa.large_string()), "string", "a"),
        (pa.array([dt.datetime(2024, 5, 1, 12, 0, 3, 250000)], pa.timestamp("ms")), "timestamp", NOON),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Rome")), "timestamp", NOON),
        (pa.array([dt.date(2024, 5, 1)]), "timestamp", dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
        (pa.array(["2024-05-01"]), "date", dt.date(2024, 5, 1)),
        (pa.array([[1, 2]], pa.large_list(pa.int64())), "array<bigint>", [1, 2]),
        (pa.array([[1, 2]], pa.list_(pa.int32())), "array<bigint>", [1, 2]),
        (pa.nulls(1), "array<bigint>", None),
    ],
)
def test_arrow_columns_of_related_types_are_accepted(array: Any, type_: str, expected: Any) -> None:
    table = coerce(pa.table({"x": array}), (Column("x", type_),))
    assert table.column("x").to_pylist() == [expected]


@pytest.mark.parametrize(
    ("array", "type_", "text"),
    [
        (pa.array([1, 300]), "tinyint", "300 does not fit into TINYINT"),
        (pa.array(["1", "2"]), "bigint", "'1' is not a BIGINT"),
        (pa.array([1.0, 1.5]), "bigint", "1.5 is not a BIGINT"),
        (pa.array([True]), "bigint", "True is not a BIGINT"),
        (pa.array([Decimal("1.239")]), "decimal(10,2)", "1.239 does not fit into DECIMAL(10,2)"),
        (pa.array([1]), "string", "1 is not a STRING"),
        (pa.array([NOON]), "timestamp_ntz", "2024-05-01 12:00:03.250000+00:00 is not a TIMESTAMP_NTZ"),
    ],
)
def test_arrow_columns_that_do_not_fit_name_the_row(array: Any, type_: str, text: str) -> None:
    assert text in error_of(pa.table({"x": array}), (Column("x", type_),))


def test_arrow_columns_are_cast_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows would take seconds value by value."""

    def convert(*_: object) -> list[Any]:
        raise AssertionError("values are converted one by one")

    monkeypatch.setattr(values, "_array", convert)
    table = pa.table(
        {"item": ["x"] * 3, "price": np.arange(3, dtype="int32"), "ts": np.arange(3).astype("datetime64[s]")}
    )
    for rows in (table, pl.DataFrame(table)):
        assert coerce(rows, BIDS).num_rows == 3
    with pytest.raises(AssertionError, match="one by one"):
        coerce(table.set_column(1, "price", pa.array([Decimal(1)] * 3)), BIDS)
