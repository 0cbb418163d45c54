"""Spark's types as Polars types, each of them as key, value and payload."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from tests.kernels.bench import Bench
from tests.model.reference import Change
from tidegate.core.columns import WEIGHT
from tidegate.core.types import polars_type
from tidegate.errors import Error
from tidegate.ir.specs import AggregateCall, AggregateSpec, TableSpec
from tidegate.kernels import aggregates
from tidegate.kernels.api import Clock
from tidegate.kernels.state import Store

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [1, -128],
    "smallint": [1, 2],
    "int": [1, 2],
    "bigint": [2**63 - 1, -(2**63)],
    "float": [1.5, float("nan")],
    "double": [-0.0, float("nan")],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-2.25")],
    "decimal(38,18)": [Decimal("1.5"), Decimal("12345678901234567890.000000000000000001")],
    "string": ["", "ä"],
    "binary": [b"", b"\xff"],
    "date": [datetime.date(2024, 5, 1), datetime.date(1969, 1, 1)],
    "timestamp": [
        datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC),
        datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC),
    ],
    "timestamp_ntz": [datetime.datetime(2024, 5, 1, 12, 0, 0, 1), datetime.datetime(1969, 1, 1)],
    "interval day to second": [datetime.timedelta(days=1, microseconds=1), datetime.timedelta(seconds=-1)],
    "array<int>": [[], [1, None]],
    "array<double>": [[-0.0], [float("nan")]],
    "struct<a:int,b:string>": [{"a": 1, "b": None}, {"a": None, "b": "x"}],
    "array<struct<a:double>>": [[{"a": -0.0}], [{"a": None}, None]],
}


@pytest.mark.parametrize("type", VALUES)
def test_every_type_is_a_key_and_a_value(type: str) -> None:
    calls = [
        AggregateCall("count", ("v",), (type,), "n", "bigint", distinct=True),
        AggregateCall("min", ("v",), (type,), "low", type),
        AggregateCall("max", ("v",), (type,), "high", type),
        AggregateCall("first", ("v",), (type,), "first", type),
        AggregateCall("array_agg", ("v",), (type,), "all", f"array<{type}>"),
    ]
    spec = AggregateSpec(("k",), tuple(calls), append_only=False, scalar=False)
    schema = {"k": polars_type(type), "v": polars_type(type)}
    bench = Bench(spec, schema, ("k",), aggregates.hashes(spec))
    a, b = VALUES[type]
    rows = [{"k": key, "v": value} for key in (a, b, None) for value in (b, a, None)]
    bench.step([[(Change(row, 1), 0) for row in rows]])
    bench.step([[(Change(row, -1), 0) for row in rows[:2]]])
    bench.step([[(Change(row, 1), 0) for row in rows[1:2]]])
    bench.step([[(Change(row, -1), 0) for row in rows[1:]]])
    assert not bench.output


@pytest.mark.parametrize("type", [*VALUES, "map<string,int>"])
def test_every_type_is_a_payload(type: str) -> None:
    first, second = VALUES.get(type, [[{"key": "a", "value": 1}], []])
    schema = {"id": pl.Int64(), "v": polars_type(type)}
    bench = Bench(TableSpec("t", ("id", "v"), ("id",), False), schema, ("id",))
    for value in (first, second, None, None, first):
        bench.step([[(Change({"id": 1, "v": value}, 1), 0)]])


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (
            "map<string,array<decimal(5,2)>>",
            pl.List(pl.Struct({"key": pl.String(), "value": pl.List(pl.Decimal(5, 2))})),
        ),
        (
            "struct<a:struct<b:int,c:double>,d:date>",
            pl.Struct({"a": pl.Struct({"b": pl.Int32(), "c": pl.Float64()}), "d": pl.Date()}),
        ),
        ("varchar(10)", pl.String()),
        ("interval hour to minute", pl.Duration("us")),
        ("void", pl.Null()),
    ],
)
def test_type_names(type: str, expected: pl.DataType) -> None:
    assert polars_type(type) == expected


def test_the_error_for_an_unsupported_type_names_it() -> None:
    with pytest.raises(Error, match="columns of type variant cannot be stored"):
        polars_type("variant")


def test_sum_and_average_of_intervals() -> None:
    type = "interval day to second"
    calls = (AggregateCall("sum", ("v",), (type,), "sum", type), AggregateCall("avg", ("v",), (type,), "avg", type))
    spec = AggregateSpec((), calls, append_only=False, scalar=True)
    bench = Bench(spec, {"v": polars_type(type)}, ())
    rows = bench.frame([Change({"v": datetime.timedelta(microseconds=number)}, 1) for number in (1, 2)])
    delta = bench.kernel.step([rows], Clock(1, 0), Store(bench.segments), True)
    assert delta.rows is not None
    assert delta.rows.drop(WEIGHT).row(0) == (datetime.timedelta(microseconds=3), datetime.timedelta(microseconds=2))
