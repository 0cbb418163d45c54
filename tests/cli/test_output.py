"""How changes look. Values and tables: tests/unit/test_rendering.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tidegate.cli.changes import as_debezium, as_json, as_ops


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
