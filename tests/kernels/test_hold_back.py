"""Rows that wait for a watermark, against the naive model."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.timed import Timed, clocks, counted, given_changes, moments, quick
from tests.model.reference import picked
from tests.model.reference_time import EPOCH, Waiting
from tidegate.core.columns import SEQ, WEIGHT
from tidegate.ir.specs import HoldBackSpec
from tidegate.ir.specs import WatermarkTest as Below

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"id": pl.Int64(), "ts": pl.Datetime("us"), "n": pl.Int32()}
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "ts": st.none() | st.integers(-10, 40).map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
        "n": st.none() | st.integers(-10, 40),
    }
)
TESTS = st.sampled_from(
    [(Below("ts", "f", True),), (Below("n", "g"),), (Below("n", "g", True), Below("ts", "f", True))]
)


@quick(120)
@given(TESTS, moments(ROW, True, watermarks=2), st.booleans())
def test_rows_wait_for_their_lines(tests: Any, drawn: Any, ends: bool) -> None:
    spec = HoldBackSpec(tuple(SCHEMA), tests)
    bench, model = Timed(spec, SCHEMA, ("id",)), Waiting(spec)
    stored = 0
    for clock, changes in zip(clocks(drawn, "fg", ends=ends), given_changes(drawn), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        stored += len(changes) - len(expected)
        delta = bench._turn(bench.segments, changes, clock)
        rows = pl.DataFrame() if delta.rows is None else delta.rows.sort(SEQ, WEIGHT)
        found = [] if delta.rows is None else [(row[:-2], row[-2]) for row in rows.rows()]
        assert found == [(picked(change.row, SCHEMA), change.weight) for change in expected]
        assert bench.rows_stored() == stored
        assert delta.rows is None or counted(delta.rows.drop(SEQ)).total() == sum(c.weight for c in expected)
