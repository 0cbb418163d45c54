"""How values, tables and changes look."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tidegate.cli.changes import as_debezium, as_json, as_ops
from tidegate.cli.tables import counted, text_table
from tidegate.cli.values import compact, plain, shown


@dataclass(frozen=True)
class Change:
    op: str
    weight: int
    step: int
    row: dict[str, Any]


UPDATE = [
    Change("-U", -1, 2, {"item": "pen", "total": 10}),
    Change("-D", -1, 2, {"item": "cup", "total": 1}),
    Change("+U", 1, 2, {"item": "pen", "total": 15}),
    Change("+I", 2, 3, {"item": "ink", "total": None}),
]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (dt.datetime(2024, 5, 1, 12, 0, 3, 250_000, tzinfo=dt.UTC), "2024-05-01 12:00:03.25"),
        (dt.datetime(2024, 5, 1, 14, 0, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2024-05-01 12:00:00"),
        (dt.date(2024, 5, 1), "2024-05-01"),
        ([1, None], "[1,null]"),
        ({"a": Decimal("2.0")}, '{"a":"2.0"}'),
        (b"\x01\xff", "01ff"),
    ],
)
def test_a_value_in_a_table(value: Any, text: str) -> None:
    assert shown(value) == text


def test_json_says_what_it_can_and_writes_the_rest_as_text() -> None:
    row = {"t": dt.datetime(2024, 5, 1, tzinfo=dt.UTC), "d": Decimal("1.10"), "nan": float("nan"), "b": b"a", "n": 1}
    assert plain(row) == {"t": "2024-05-01T00:00:00Z", "d": "1.10", "nan": "nan", "b": "YQ==", "n": 1}
    assert compact("é") == '"é"'


def test_a_table_aligns_columns_and_counts_rows() -> None:
    assert text_table(("item", "total"), [("pen", 30), ("paper", None)]).split("\n") == [
        "item  | total",
        "------+------",
        "pen   |    30",
        "paper |  NULL",
        "(2 rows)",
    ]


def test_a_row_stays_on_one_line() -> None:
    assert text_table(("note",), [("a\nb",)]).split("\n")[2:] == ["a\\nb", "(1 row)"]


def test_an_empty_table_has_its_head() -> None:
    assert text_table(("a", "b"), []) == "a | b\n--+--\n(0 rows)"


def test_counts() -> None:
    assert (counted(0, "row"), counted(1, "row"), counted(12345, "row")) == ("0 rows", "1 row", "12,345 rows")


def test_changes_as_op_codes() -> None:
    assert list(as_ops(UPDATE)) == [
        "     2  -U  pen | 10",
        "     2  -D  cup | 1",
        "     2  +U  pen | 15",
        "     3  +I  ink | NULL  x2",
    ]


def test_changes_as_json() -> None:
    assert json.loads(next(as_json(UPDATE))) == {
        "step": 2,
        "op": "-U",
        "weight": -1,
        "row": {"item": "pen", "total": 10},
    }


def envelopes(key: tuple[str, ...]) -> list[tuple[str, Any, Any, int]]:
    lines = [json.loads(line) for line in as_debezium(UPDATE, "revenue", key)]
    return [(line["op"], line["before"], line["after"], line["source"]["step"]) for line in lines]


def test_debezium_pairs_the_halves_of_an_update_by_key() -> None:
    pen, cup = {"item": "pen", "total": 10}, {"item": "cup", "total": 1}
    new, ink = {"item": "pen", "total": 15}, {"item": "ink", "total": None}
    assert envelopes(("item",)) == [("d", cup, None, 2), ("u", pen, new, 2), ("c", None, ink, 3), ("c", None, ink, 3)]


def test_debezium_without_a_key_deletes_and_creates() -> None:
    assert [op for op, *_ in envelopes(())] == ["d", "d", "c", "c", "c"]
