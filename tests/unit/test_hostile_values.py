"""Whatever is given as rows becomes exact values or a `tidegate.Error`: no exception of Python, Arrow or pandas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidegate.core.schema import Column
from tidegate.errors import Error
from tidegate.runtime.values import coerce

TYPES = [
    *[
        "string",
        "bigint",
        "tinyint",
        "double",
        "float",
        "decimal(10,2)",
        "decimal(38,0)",
        "boolean",
        "binary",
        "date",
        "timestamp_ntz",
    ],
    *["timestamp", "array<bigint>", "array<array<string>>", "map<string,bigint>", "struct<a:bigint,b:string>"],
    *["array<timestamp>", "map<string,struct<x:decimal(4,1)>>", "interval day to second"],
]
EAST, WEST = dt.timezone(dt.timedelta(hours=14)), dt.timezone(dt.timedelta(hours=-14))
SURROGATE = "\ud800"


class NoText:
    """An object whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class NoItems:
    """A sequence that fails when it is read."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


VALUES: list[Any] = [
    *[None, 1, -1, 2**63, 2**64, 10**5000, True, 1.5, float("inf"), float("nan"), 1j, "x", "", "a\x00b", SURROGATE],
    *[b"x", b"\xff", bytearray(b"1"), memoryview(b"12"), "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
    *[Decimal(text) for text in ("Infinity", "-Infinity", "NaN", "sNaN", "1e999999", "1e-999999", "0e999999", "0")],
    *[dt.datetime.max, dt.datetime.min, dt.datetime.max.replace(tzinfo=WEST), dt.datetime.min.replace(tzinfo=EAST)],
    *[dt.date.max, dt.date.min, dt.time(1), dt.timedelta.max, dt.timedelta.min],
    *[[], [1], [[1]], [SURROGATE], nested(100_000), cycle(), {}, {"a": 1}, {1: 2}, {None: 1}, {SURROGATE: 1}],
    *[(1, 2), (), set(), {1}, object(), NoText(), NoItems(), range(3), int, Ellipsis, lambda: 1, Exception("x")],
    *[np.int64(3), np.uint64(2**64 - 1), np.float64("nan"), np.str_("x"), np.bytes_(b"x"), np.bool_(True)],
    *[np.datetime64("2024-01-01"), np.datetime64("NaT"), np.datetime64("99999-01-01"), np.timedelta64(3, "M")],
    *[np.timedelta64(2**62, "s"), np.array([1, 2]), np.array(1), np.longdouble(1), np.complex128(1), np.void(b"x")],
    *[pd.NA, pd.NaT, pd.Timestamp.max, pd.Timedelta("1s"), pa.scalar(1), pl.Series([1]), pd.Series([1])],
]
ARROW = [
    *[pa.uint64(), pa.float16(), pa.large_string(), pa.string_view(), pa.decimal256(70, 5), pa.timestamp("s")],
    *[pa.timestamp("ns"), pa.timestamp("us", "Asia/Tokyo"), pa.date64(), pa.time32("s"), pa.duration("s")],
    *[pa.list_(pa.int8(), 2), pa.dictionary(pa.int8(), pa.string()), pa.month_day_nano_interval(), pa.int64()],
]
EXTREMES = pa.array([2**62, -(2**62), 2**63 - 1])
FRAMES: list[Callable[[], Any]] = [
    lambda: pd.DataFrame({"c": [object()]}),
    lambda: pd.DataFrame({"c": [SURROGATE]}),
    lambda: pd.DataFrame({1: [1]}),
    lambda: pd.DataFrame([[1, 2]], columns=["c", "c"]),
    lambda: pd.DataFrame({"c": [[1], [2, "a"]]}),
    lambda: pd.DataFrame({"c": [1 + 2j]}),
    lambda: pd.DataFrame({"c": pd.period_range("2024", periods=1)}),
    lambda: pd.Series([1]),
    lambda: pl.DataFrame({"c": [object()]}, schema={"c": pl.Object}),
    lambda: pl.DataFrame({"c": [2**126]}, schema={"c": pl.Int128}),
    lambda: pl.Series([1]),
    lambda: pl.LazyFrame({"c": [1]}).select("missing"),
    lambda: pa.table({"c": pa.array([b"\xff"]).view(pa.string())}),
    lambda: np.array(1),
    lambda: pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["c", "C"]),
    *[lambda kind=kind: pa.table({"c": pa.nulls(2, kind)}) for kind in ARROW],
    *[lambda kind=kind: pa.table({"c": EXTREMES.cast(kind)}) for kind in ARROW if kind in map(pa.timestamp, "s")],
    lambda: pa.table({"c": EXTREMES.view(pa.timestamp("us", "UTC"))}),
    lambda: pa.table({"c": EXTREMES.view(pa.duration("s"))}),
    lambda: pa.table({"c": EXTREMES.view(pa.date64())}),
]


def stored(rows: Any, kind: str) -> Any:
    """What is stored, None if it is rejected: the error has a code and a text that can be printed."""
    try:
        table = coerce(rows, (Column("c", kind),), "rows")
    except Error as error:
        assert error.code in ("TYPE_MISMATCH", "UNKNOWN_COLUMN")
        str(error).encode()
        return None
    table.validate(full=True)
    table.to_pylist()
    return table


@pytest.mark.parametrize("kind", TYPES)
def test_every_value_is_stored_or_rejected_with_a_code(kind: str) -> None:
    for value in VALUES:
        for rows in ([(value,)], [{"c": value}], [(value,), (value,)], [{"c": value}, {"c": None}]):
            stored(rows, kind)


@pytest.mark.parametrize("kind", TYPES)
def test_every_frame_is_stored_or_rejected_with_a_code(kind: str) -> None:
    for frame in FRAMES:
        stored(frame(), kind)


def test_whatever_is_passed_as_rows_is_rejected_with_a_code() -> None:
    for value in VALUES:
        if not isinstance(value, NoItems):
            for rows in (value, [value], [[value]], [{"c": 1, "d": value}]):
                stored(rows, "bigint")
    for key in (None, 1, SURROGATE, 10**5000, (1,), NoText()):
        stored([{key: 1}], "bigint")


def test_an_exception_of_the_users_own_generator_is_the_users() -> None:
    with pytest.raises(RuntimeError, match="no items"):
        coerce(NoItems(), (Column("c", "bigint"),))


def error_of(value: Any, kind: str) -> str:
    with pytest.raises(Error) as caught:
        coerce([("fine",), (value,)] if kind == "string" else [(value,)], (Column("c", kind),))
    return str(caught.value)


def test_texts_of_errors() -> None:
    assert error_of(SURROGATE, "string").startswith(
        "TYPE_MISMATCH: row 2, column c: '\\ud800' is not Unicode text\n  hint: it has half of a character"
    )
    assert error_of(b"x", "string").endswith("hint: decode bytes first: value.decode()")
    assert "column c: Infinity is not a DECIMAL(5,2)" in error_of(Decimal("Infinity"), "decimal(5,2)")
    assert "column c: a number of 16610 bits does not fit into BIGINT" in error_of(10**5000, "bigint")
    assert "column c: a value of type NoText is not a BIGINT" in error_of(NoText(), "bigint")
    assert "column c: a value of type list is not a BIGINT" in error_of(nested(100_000), "bigint")
    assert "row 1, column c: its time is not in the years 1 to 9999" in error_of(
        dt.datetime.max.replace(tzinfo=WEST), "timestamp"
    )
    late = EXTREMES.view(pa.timestamp("us", "UTC"))
    with pytest.raises(Error, match="row 2, column c: its time is not in the years 1 to 9999"):
        coerce(pa.table({"c": pa.ListArray.from_arrays([0, 0, 3], late)}), (Column("c", "array<timestamp>"),))
