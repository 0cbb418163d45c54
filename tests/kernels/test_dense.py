"""Grouping by slots of an array, compared with GROUP BY of Polars."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.tiers import examples
from tidegate.kernels.aggregates import dense

pytestmark = pytest.mark.usefixtures("tiny_chunks")

EPOCH = datetime.datetime(1970, 1, 1)
ROWS = st.lists(
    st.tuples(
        st.integers(-3, 3),
        st.booleans(),
        st.integers(-2, 2).map(lambda n: EPOCH + datetime.timedelta(microseconds=1 + 10 * n)),
        st.sampled_from([1, 2, -5, 2**62, -(2**62)]),
        st.sampled_from([0.5, -0.0, float("inf"), 1e300]),
        st.integers(1, 1),
    ),
    min_size=5,
    max_size=60,
)
SCHEMA = {
    "k": pl.Int32(),
    "b": pl.Boolean(),
    "ts": pl.Datetime("us"),
    "i": pl.Int64(),
    "x": pl.Float64(),
    "w": pl.Int64(),
}


@examples(100)
@given(ROWS, st.sampled_from([["k"], ["ts"], ["b", "k"]]), st.booleans())
def test_sums_of_groups(drawn: Any, by: list[str], hashed: bool) -> None:
    rows = pl.DataFrame(drawn, schema=SCHEMA, orient="row").select(*by, "i", "x", "w")
    if hashed:
        rows = rows.with_columns(pl.struct(by).hash().reinterpret(signed=True).alias("h"))
    sums = dense.sum_groups(rows, by, {"ts": 10}, "h" if hashed else None)
    assert sums is not None, "there are at most 14 slots, and at least 5 rows"
    firsts = [pl.col("h").first()] if hashed else []
    expected = rows.group_by(by).agg(*firsts, pl.col("i", "x", "w").sum())
    assert_frame_equal(sums, expected.select(sums.columns), check_row_order=False)


def test_keys_that_are_not_dense_are_left_to_polars() -> None:
    def sums(**columns: Any) -> pl.DataFrame | None:
        return dense.sum_groups(pl.DataFrame(columns), ["k"], {}, None)

    assert sums(k=[1, 2, 3, 1], n=[1, 1, 1, 1]) is not None
    assert sums(k=[1, 2, 10**9, 1], n=[1, 1, 1, 1]) is None
    assert sums(k=[1, 2, None, 1], n=[1, 1, 1, 1]) is None
    assert sums(k=["a", "b", "c", "a"], n=[1, 1, 1, 1]) is None
    assert sums(k=[1, 2, 3, 1], n=["1", "1", "1", "1"]) is None
