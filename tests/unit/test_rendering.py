"""A value is rendered alike in every output: JSON for programs, text for people."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from tidegate.cli.changes import as_debezium, as_json, as_ops
from tidegate.cli.query import write_csv, write_json, write_table
from tidegate.connectors.rows import json_lines, op_lines
from tidegate.core.columns import WEIGHT
from tidegate.core.render import csv_column, json_cells, json_row, json_text, text, text_cells
from tidegate.core.tables import counted, text_table
from tidegate.core.types import arrow_type
from tidegate.formats.json import JsonWriter
from tidegate.runtime.results import Change, Result
from tidegate.storage.step_header import late_rows

INSTANT = dt.datetime(2024, 5, 1, 12, 0, 3, 250_000, tzinfo=dt.UTC)
LOCAL = INSTANT.replace(tzinfo=None)
NAN, INF = float("nan"), float("inf")

VALUES: list[tuple[str, Any, str, str]] = [
    ("int", 30, "30", "30"),
    ("int", None, "null", "NULL"),
    ("boolean", True, "true", "true"),
    ("double", 1.5, "1.5", "1.5"),
    ("double", NAN, '"NaN"', "NaN"),
    ("double", INF, '"Infinity"', "Infinity"),
    ("double", -INF, '"-Infinity"', "-Infinity"),
    ("decimal(10,2)", Decimal("1.50"), '"1.50"', "1.50"),
    ("string", 'a "b" ä', '"a \\"b\\" ä"', 'a "b" ä'),
    ("binary", b"\x01\xff", '"Af8="', "01ff"),
    ("date", dt.date(2024, 5, 1), '"2024-05-01"', "2024-05-01"),
    ("time", dt.time(12, 0, 3, 250_000), '"12:00:03.25"', "12:00:03.25"),
    ("timestamp", INSTANT, '"2024-05-01T12:00:03.25Z"', "2024-05-01 12:00:03.25"),
    ("timestamp", INSTANT.replace(microsecond=0), '"2024-05-01T12:00:03Z"', "2024-05-01 12:00:03"),
    ("timestamp_ntz", LOCAL, '"2024-05-01T12:00:03.25"', "2024-05-01 12:00:03.25"),
    ("interval day to second", dt.timedelta(seconds=90), '"0:01:30"', "0:01:30"),
    ("array<int>", [1, None], "[1,null]", "[1,null]"),
    ("array<timestamp>", [INSTANT], '["2024-05-01T12:00:03.25Z"]', '["2024-05-01T12:00:03.25Z"]'),
    (
        "array<timestamp_ntz>",
        [INSTANT.replace(tzinfo=None)],
        '["2024-05-01T12:00:03.25"]',
        '["2024-05-01T12:00:03.25"]',
    ),
    ("array<double>", [1.5, NAN], '[1.5,"NaN"]', '[1.5,"NaN"]'),
    ("struct<a:int,b:decimal(3,1)>", {"a": 1, "b": Decimal("2.0")}, '{"a":1,"b":"2.0"}', '{"a":1,"b":"2.0"}'),
    ("map<string,binary>", [("k", b"a")], '{"k":"YQ=="}', '{"k":"YQ=="}'),
    ("map<int,int>", [(1, 2)], '{"1":2}', '{"1":2}'),
]
NAMES = [f"{type_}-{json_}" for type_, _, json_, _ in VALUES]


def table_of(type_: str, value: Any) -> pa.Table:
    return pa.table({"v": pa.array([value], arrow_type(type_))})


def python_value(type_: str, value: Any) -> Any:
    """The value as Python code receives it."""
    return table_of(type_, value).column("v").to_pylist()[0]


def change_of(type_: str, value: Any) -> pa.Table:
    """The value in a change, as sinks receive it."""
    head = pa.table({"op": ["+I"], "weight": pa.array([1], pa.int64()), "step": pa.array([1], pa.int64())})
    return head.append_column("v", table_of(type_, value).column("v"))


def output_of(write: Callable[[Result], None], type_: str, value: Any) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        write(Result(table_of(type_, value)))
    return out.getvalue()


def row_value(row: str) -> str:
    """The text of the value in the JSON of a row."""
    assert row.startswith('{"v":') and row.endswith("}")
    return row[len('{"v":') : -1]


def change(type_: str, value: Any) -> Change:
    return Change("+I", 1, 1, {"v": python_value(type_, value)})


JSON_EXITS: dict[str, Callable[[str, Any], str]] = {
    "column": lambda type_, value: json_cells(table_of(type_, value).column("v"))[0],
    "value": lambda type_, value: json_text(python_value(type_, value)),
    "row": lambda type_, value: row_value(json_row({"v": python_value(type_, value)})),
    "query --json": lambda type_, value: row_value(output_of(write_json, type_, value).strip()[1:-1]),
    "tail --json": lambda type_, value: next(as_json([change(type_, value)])).partition('"row":')[2][5:-2],
    "tail --format debezium": lambda type_, value: row_value(
        next(as_debezium([change(type_, value)], "t", ())).partition('"after":')[2].partition(',"source"')[0]
    ),
    "stdout": lambda type_, value: row_value(next(json_lines(change_of(type_, value))).partition('"row":')[2][:-1]),
    "kafka, webhook, sse": lambda type_, value: row_value(JsonWriter().rows(table_of(type_, value))[0].decode()),
}
TEXT_EXITS: dict[str, Callable[[str, Any], str]] = {
    "column": lambda type_, value: text_cells(table_of(type_, value).column("v"))[0],
    "value": lambda type_, value: text(python_value(type_, value)),
    "query": lambda type_, value: output_of(write_table, type_, value).split("\n")[2].strip(),
    "Result.show()": lambda type_, value: str(Result(table_of(type_, value))).split("\n")[2].strip(),
    "stdout ops": lambda type_, value: next(op_lines(change_of(type_, value))).split("  ", 3)[-1].removeprefix("+I  "),
    "tail": lambda type_, value: next(as_ops([change(type_, value)])).partition("+I  ")[2],
}


@pytest.mark.parametrize("exit", JSON_EXITS)
@pytest.mark.parametrize(("type_", "value", "expected", "_"), VALUES, ids=NAMES)
def test_json(exit: str, type_: str, value: Any, expected: str, _: str) -> None:
    output = JSON_EXITS[exit](type_, value)
    assert output == expected
    json.loads(output, parse_constant=pytest.fail)


@pytest.mark.parametrize("exit", TEXT_EXITS)
@pytest.mark.parametrize(("type_", "value", "_", "expected"), VALUES, ids=NAMES)
def test_text(exit: str, type_: str, value: Any, _: str, expected: str) -> None:
    assert TEXT_EXITS[exit](type_, value) == expected


@pytest.mark.parametrize("exit", ["column", "query", "Result.show()"])
def test_an_empty_map_is_an_object(exit: str) -> None:
    assert TEXT_EXITS[exit]("map<int,int>", []) == "{}"


@pytest.mark.parametrize("exit", TEXT_EXITS)
def test_doubles_have_a_decimal_point_in_text(exit: str) -> None:
    assert TEXT_EXITS[exit]("double", 30.0) == "30.0"


@pytest.mark.parametrize("exit", JSON_EXITS)
def test_doubles_are_json_numbers(exit: str) -> None:
    assert json.loads(JSON_EXITS[exit]("double", 30.0)) == 30


def test_a_column_of_doubles_with_nan_and_infinity() -> None:
    column = pa.chunked_array([pa.array([1.0, NAN, None, -INF, 0.1])])
    assert text_cells(column) == ["1.0", "NaN", "NULL", "-Infinity", "0.1"]
    assert json_cells(column) == ["1", '"NaN"', "null", '"-Infinity"', "0.1"]
    assert csv_column(column).to_pylist() == ["1.0", "NaN", None, "-Infinity", "0.1"]


def test_csv_of_the_command_line_leaves_null_empty() -> None:
    assert output_of(write_csv, "int", None) == 'v\n""\n'
    assert output_of(write_csv, "timestamp", INSTANT) == "v\n2024-05-01 12:00:03.25\n"


def test_late_rows_are_json_too() -> None:
    rows = pl.DataFrame({"at": [INSTANT], "raw": [b"a"], "x": [NAN], WEIGHT: [1]})
    (row,) = late_rows(rows, "s", ("v",), "at", "1")
    assert row.row == '{"at":"2024-05-01T12:00:03.25Z","raw":"YQ==","x":"NaN"}'


def test_a_table_aligns_numbers_to_the_right_and_counts_rows() -> None:
    table = pa.table({"item": ["pen", "paper"], "total": [30, None], "price": [Decimal("1.50"), Decimal("10.00")]})
    expected = [
        "item  | total | price",
        "------+-------+------",
        "pen   |    30 |  1.50",
        "paper |  NULL | 10.00",
        "(2 rows)",
    ]
    assert text_table(table).split("\n") == expected
    assert str(Result(table)).split("\n") == expected


def test_a_row_stays_on_one_line() -> None:
    assert text_table(pa.table({"note": ["a\nb"]})).split("\n")[2:] == ["a\\nb", "(1 row)"]


def test_an_empty_table_has_its_head() -> None:
    assert text_table(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})) == (
        "a | b\n--+--\n(0 rows)"
    )


def test_html_has_the_same_cells() -> None:
    assert "<td>2024-05-01 12:00:03.25</td>" in Result(table_of("timestamp", INSTANT))._repr_html_()


def test_counts() -> None:
    assert (counted(0, "row"), counted(1, "row"), counted(12345, "row")) == ("0 rows", "1 row", "12,345 rows")
