"""Tables against the naive model: content, order inside a step, and rejected rows."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import Bench, DrawnChange, steps
from tests.model.reference import Change, Content, plain
from tests.tiers import examples
from tidegate.ir.specs import TableSpec

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"id": pl.Int64(), "part": pl.Float64(), "v": pl.String()}
COLUMNS = tuple(SCHEMA)
ROW = st.fixed_dictionaries(
    {
        "id": st.sampled_from([1, 2, 3, None]),
        "part": st.sampled_from([0.0, -0.0, float("nan"), None]),
        "v": st.sampled_from(["x", "y", None]),
    }
)
quick = examples(60)


def play_in_order(bench: Bench, drawn: Sequence[tuple[Sequence[Sequence[DrawnChange]], int]]) -> None:
    """Runs random steps; deletes may be of rows that do not exist."""
    for sides, begin in drawn:
        changes = [
            (Change(each.row, -1 if each.delete else 1, position), each.block) for position, each in enumerate(sides[0])
        ]
        delta = bench.step([changes], begin)
        assert isinstance(bench.model, Content)
        rejected = [(error.code, error.row.replace("-0.0", "0.0")) for error in delta.errors]
        assert rejected == [(code, _json(row)) for code, row in bench.model.rejected]


def _json(row: tuple[Any, ...]) -> str:
    values = dict(zip(COLUMNS, row, strict=True))
    return json.dumps(values, separators=(",", ":"))


@quick
@given(st.sampled_from([("id",), ("id", "part")]), st.booleans(), st.sampled_from([0, 3]), steps(ROW, deletes=True))
def test_keyed_tables(key: tuple[str, ...], append_only: bool, modulus: int, drawn: Any) -> None:
    play_in_order(Bench(TableSpec("t", COLUMNS, key, append_only), SCHEMA, key, modulus=modulus), drawn)


@quick
@given(st.booleans(), st.sampled_from([0, 3]), steps(ROW, deletes=True))
def test_bags(append_only: bool, modulus: int, drawn: Any) -> None:
    play_in_order(Bench(TableSpec("t", COLUMNS, (), append_only), SCHEMA, COLUMNS, modulus=modulus), drawn)


def test_a_rejected_row_is_rendered_as_json() -> None:
    schema = {
        "id": pl.Int64(),
        "price": pl.Decimal(10, 2),
        "day": pl.Date(),
        "at": pl.Datetime("us", "UTC"),
        "raw": pl.Binary(),
        "tags": pl.List(pl.String()),
    }
    bench = Bench(TableSpec("orders", tuple(schema), ("id",), False), schema, ("id",))
    row = {
        "id": None,
        "price": Decimal("1.50"),
        "day": datetime.date(2024, 5, 1),
        "at": datetime.datetime(2024, 5, 1, 12, 0, 3, tzinfo=datetime.UTC),
        "raw": b"\x01\xff",
        "tags": ["ä", None],
    }
    (error,) = bench.step([[(Change(row, 1), 0)]]).errors
    assert error.relation == "orders"
    assert error.message == "orders has the key (id), which must not be NULL."
    assert error.row == (
        '{"id":null,"price":"1.50","day":"2024-05-01","at":"2024-05-01T12:00:03Z","raw":"Af8=","tags":["ä",null]}'
    )


def test_only_the_key_of_a_delete_counts() -> None:
    bench = Bench(TableSpec("t", COLUMNS, ("id",), False), SCHEMA, ("id",))
    bench.step([[(Change({"id": 1, "part": 2.0, "v": "x"}, 1), 0)]])
    delta = bench.step([[(Change({"id": 1, "part": None, "v": None}, -1), 0)]])
    assert delta.rows is not None
    assert [plain(row) for row in delta.rows.rows()] == [(1, 2.0, "x", -1)]


def test_an_insert_of_the_same_row_changes_nothing() -> None:
    bench = Bench(TableSpec("t", COLUMNS, ("id",), False), SCHEMA, ("id",))
    row = {"id": 1, "part": float("nan"), "v": None}
    bench.step([[(Change(row, 1), 0)]])
    assert bench.step([[(Change(row, 1), 0)]]).rows is None
