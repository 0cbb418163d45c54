"""DISTINCT, EXCEPT and INTERSECT against the naive model."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import Bench, play, steps
from tests.tiers import examples
from tidegate.ir.specs import DistinctSpec, SetOpSpec

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"x": pl.Float64(), "l": pl.List(pl.Int64()), "s": pl.Struct({"a": pl.String(), "b": pl.Float64()})}
COLUMNS = tuple(SCHEMA)
ROW = st.fixed_dictionaries(
    {
        "x": st.sampled_from([0.0, -0.0, float("nan"), None]),
        "l": st.sampled_from([[], [1], [None], None]),
        "s": st.sampled_from([{"a": "x", "b": -0.0}, {"a": "x", "b": 0.0}, {"a": None, "b": None}, None]),
    }
)
MODULUS = st.sampled_from([0, 3])
quick = examples(40)


@quick
@given(MODULUS, steps(ROW, deletes=True))
def test_distinct_rows_are_emitted_once_and_removed_with_the_last_duplicate(modulus: int, drawn: Any) -> None:
    play(Bench(DistinctSpec(COLUMNS, False), SCHEMA, COLUMNS, modulus=modulus), drawn)


@quick
@given(MODULUS, steps(ROW, deletes=False))
def test_distinct_rows_of_append_only_input(modulus: int, drawn: Any) -> None:
    play(Bench(DistinctSpec(COLUMNS, True), SCHEMA, COLUMNS, modulus=modulus), drawn)


@quick
@given(st.sampled_from(["except", "intersect"]), st.booleans(), MODULUS, steps(ROW, deletes=True, ports=2))
def test_set_operations_follow_both_sides(kind: str, all: bool, modulus: int, drawn: Any) -> None:
    play(Bench(SetOpSpec(kind, all, COLUMNS), SCHEMA, COLUMNS, ports=2, modulus=modulus), drawn)
