"""Temporal filters: rows that enter and leave as time passes, against the naive model."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Change
from tests.model.reference_time import TemporalFilter
from tests.tiers import examples
from tidegate.ir.specs import TemporalFilterSpec
from tidegate.kernels.api import Clock

pytestmark = pytest.mark.usefixtures("tiny_chunks")

SCHEMA = {"id": pl.Int64(), "x": pl.Float64(), "a": pl.Int64(), "b": pl.Int64()}
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "x": st.sampled_from([0.0, -0.0, None, float("nan")]),
        "a": st.none() | st.integers(1000, 1060),
        "b": st.none() | st.integers(1000, 1060),
    }
)
BOUNDS = st.sampled_from([("a", "b"), (None, "b"), ("a", None), (None, None)])


@examples(120)
@given(BOUNDS, drawn_steps(ROW, True))
def test_rows_are_present_while_they_pass_the_filter(bounds: Any, drawn: Any) -> None:
    spec = TemporalFilterSpec(("id", "x"), *bounds)
    bench, model = TimedBench(spec, SCHEMA, ("id",)), TemporalFilter(spec)
    for step, clock, changes in zip(drawn, clocks(drawn), changes_of(drawn), strict=True):
        model.step([change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.output == model.content(clock.time_us)
        assert bench.content() == bench.output
        wake, expected = bench.delta.timer_us, model.next_us(clock.time_us)
        assert wake is None or wake > clock.time_us
        assert expected is None or (wake is not None and wake <= expected)


def test_rows_that_can_never_pass_again_are_evicted() -> None:
    spec = TemporalFilterSpec(("id", "x"), "a", "b")
    bench = TimedBench(spec, SCHEMA, ("id",))
    rows = [{"id": 1, "x": None, "a": 5, "b": 10}, {"id": 2, "x": None, "a": 30, "b": 30}]
    bench.turn([(Change(row, 1), 0) for row in rows], Clock(1, 20))
    assert (bench.rows_stored(), bench.delta.timer_us) == (0, None)
    bench.turn([(Change({**rows[0], "a": 25, "b": 30}, 1), 0)], Clock(2, 21))
    assert (bench.rows_stored(), bench.delta.timer_us) == (1, 25)
    bench.turn([], Clock(3, 25))
    assert (sum(bench.output.values()), bench.delta.timer_us) == (1, 30)
    bench.turn([], Clock(4, 31))
    assert (bench.rows_stored(), sum(bench.output.values()), bench.delta.timer_us) == (0, 0, None)
