"""The reorder buffer: rows that wait for a watermark, against the naive model."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.timed import TimedBench, changes_of, clocks, count_rows, drawn_steps
from tests.model.reference import picked
from tests.model.reference_time import EPOCH, HeldBack
from tests.tiers import examples
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


@examples(120)
@given(TESTS, drawn_steps(ROW, True, watermarks=2), st.booleans())
def test_rows_wait_for_their_watermarks(tests: Any, drawn: Any, ends: bool) -> None:
    spec = HoldBackSpec(tuple(SCHEMA), tests)
    bench, model = TimedBench(spec, SCHEMA, ("id",)), HeldBack(spec)
    stored = 0
    for clock, changes in zip(clocks(drawn, "fg", ends=ends), changes_of(drawn), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        stored += len(changes) - len(expected)
        delta = bench._turn(bench.segments, [changes], clock)
        rows = pl.DataFrame() if delta.rows is None else delta.rows.sort(SEQ, WEIGHT)
        released = [] if delta.rows is None else [(row[:-2], row[-2]) for row in rows.rows()]
        assert released == [(picked(change.row, SCHEMA), change.weight) for change in expected]
        assert bench.rows_stored() == stored
        assert delta.rows is None or count_rows(delta.rows.drop(SEQ)).total() == sum(c.weight for c in expected)
