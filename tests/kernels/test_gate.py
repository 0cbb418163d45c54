"""Gates against the naive model: which changes are released when, alone and behind an aggregate."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_aggregate import call
from tests.kernels.test_windows import ARRIVALS, CALLS, ROW, SCHEMA, lengths
from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Change, Groups, picked
from tests.model.reference_time import EPOCH, GateModel, Outcome, Windows
from tests.tiers import examples
from tidegate.core.durations import CalendarInterval
from tidegate.ir.specs import AggregateCall, AggregateSpec, GatedAggregateSpec, GateSpec, WindowAggregateSpec
from tidegate.ir.specs import WatermarkTest as Below
from tidegate.ir.windows import WindowSpec
from tidegate.kernels import aggregates, make
from tidegate.kernels.api import INFINITE, Clock
from tidegate.kernels.gate import EmitOnClose, GatedAggregate
from tidegate.kernels.window_aggregate import on_port

pytestmark = pytest.mark.usefixtures("tiny_chunks")

PLAIN = {"id": pl.Int64(), "ts": pl.Datetime("us"), "n": pl.Int64(), "x": pl.Float64()}
PLAIN_ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "ts": st.none() | st.integers(-10, 40).map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
        "n": st.none() | st.integers(-10, 40),
        "x": st.sampled_from([0.0, -0.0, float("nan"), None]),
    }
)
TESTS = st.sampled_from(
    [
        (),
        (Below("ts", "f"),),
        (Below("ts", "f", inclusive=True),),
        (Below("n", "g"),),
        (Below("ts", "f"), Below("n", "g", inclusive=True)),
    ]
)


@examples(70)
@given(
    TESTS,
    TESTS,
    st.sampled_from([None, 1, 7, 20]),
    st.booleans(),
    drawn_steps(PLAIN_ROW, True, watermarks=2),
    st.booleans(),
)
def test_a_gate_alone(release: Any, late: Any, every: int | None, delayed: bool, drawn: Any, ends: bool) -> None:
    spec = GateSpec(tuple(PLAIN), release, late, every, delayed)
    bench, model = TimedBench(spec, PLAIN, ("id",)), GateModel(spec)
    for step, clock, changes in zip(drawn, clocks(drawn, "fg", ends=ends), changes_of(drawn), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        assert bench.output == model.emitted
        assert bench.delta.timer_us == model.timer_us(clock)


END, START = Below("window_end", "f", inclusive=True), Below("window_start", "f", inclusive=True)
STRATEGIES = st.sampled_from(
    [
        (None, 0, True),
        (None, 0, False),
        (None, 5, False),
        (None, 11, False),
        (7, 0, False),
        (7, 5, False),
        (20, 0, False),
    ]
)


@pytest.mark.parametrize("append_only", [True, False])
@examples(25)
@given(
    window=lengths("micros"),
    calls=st.lists(st.sampled_from(CALLS + ARRIVALS), min_size=1, max_size=2, unique=True),
    strategy=STRATEGIES,
    delayed=st.booleans(),
    drawn=drawn_steps(ROW, deletes=False),
    ends=st.booleans(),
)
def test_windows_behind_a_gate(
    append_only: bool, window: Any, calls: Any, strategy: Any, delayed: bool, drawn: Any, ends: bool
) -> None:
    every, lateness, once = strategy
    aggregate = AggregateSpec(("k", "window_start", "window_end"), tuple(calls), append_only, scalar=False)
    inner = WindowAggregateSpec(window, aggregate, "f", lateness, delayed)
    columns = (*aggregate.keys, *(each.out for each in calls))
    spec = GatedAggregateSpec(inner, GateSpec(columns, (END,), (END,) if once else (), every, delayed))
    port = on_port(inner)
    bench = TimedBench(spec, SCHEMA, port.keys, aggregates.hashes(port))
    windows, gate = Windows(inner), GateModel(spec.gate)
    for step, clock, changes in zip(drawn, clocks(drawn, ends=ends), changes_of(drawn), strict=True):
        expected = windows.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        gate.step_to(clock, windows.content())
        assert bench.output == gate.emitted
        assert bench.delta.timer_us == gate.timer_us(clock)
        open_rows = set(windows.open(clock))
        assert open_rows & set(bench.content()) == open_rows & set(gate.emitted)
        assert not bench.content() - gate.emitted
        if clock.watermarks["f"] == INFINITE and not gate.pending():
            assert bench.rows_stored() == 0


def test_windows_that_emit_once_on_close_need_no_gate() -> None:
    window = WindowSpec("tumble", "ts", CalendarInterval(micros=10))
    keys, columns = ("k", "window_start", "window_end"), ("k", "window_start", "window_end", "n")

    def kernel_of(calls: tuple[AggregateCall, ...], append_only: bool, gate: GateSpec) -> type:
        inner = WindowAggregateSpec(window, AggregateSpec(keys, calls, append_only, scalar=False), "f")
        return type(make(GatedAggregateSpec(inner, gate)))

    count, low = (
        (AggregateCall("count", (), (), "n", "bigint"),),
        (AggregateCall("min", ("v",), ("bigint",), "n", "bigint"),),
    )
    once = GateSpec(columns, (END,), (END,))
    assert kernel_of(count, False, once) is EmitOnClose
    assert kernel_of(low, True, once) is EmitOnClose
    assert kernel_of(low, False, once) is GatedAggregate, (
        "the values of a minimum are stored apart if they can be retracted"
    )
    assert (
        kernel_of(count, True, GateSpec(columns, (END,), (Below("window_end", "later", inclusive=True),)))
        is GatedAggregate
    )
    assert kernel_of(count, True, GateSpec(columns, (END,), (), every=5)) is GatedAggregate


GROUPED = {"d": pl.Datetime("us"), "k": pl.String(), "i": pl.Int64(), "n": pl.Int64()}
GROUPED_ROW = st.fixed_dictionaries(
    {
        "d": st.none() | st.integers(-2, 8).map(lambda n: EPOCH + datetime.timedelta(microseconds=5 * n)),
        "k": st.sampled_from(["a", "b"]),
        "i": st.sampled_from([1, 2, None]),
        "n": st.none() | st.integers(-5, 10),
    }
)
GROUP_CALLS = (
    call("count", type="bigint"),
    call("sum", "i", type="bigint"),
    call("count", "i", type="bigint", distinct=True),
)


@examples(60)
@given(
    key=st.sampled_from([("d",), ("k", "d"), ("n", "d"), ()]),
    every=st.sampled_from([None, None, 7]),
    delayed=st.booleans(),
    drawn=drawn_steps(GROUPED_ROW, deletes=True, watermarks=2),
    ends=st.booleans(),
)
def test_groups_with_an_end_behind_a_gate(key: Any, every: int | None, delayed: bool, drawn: Any, ends: bool) -> None:
    tests = tuple(Below(name, watermark) for name, watermark in (("d", "f"), ("n", "g")) if name in key)
    inner = AggregateSpec(key, GROUP_CALLS, append_only=False, scalar=not key)
    columns = (*key, *(each.out for each in GROUP_CALLS))
    spec = GatedAggregateSpec(inner, GateSpec(columns, tests, tests if every is None else (), every, delayed))
    bench = TimedBench(spec, GROUPED, key, aggregates.hashes(inner))
    groups, gate = Groups(inner), GateModel(spec.gate)
    for step, clock, changes in zip(drawn, clocks(drawn, "fg", ends=ends), changes_of(drawn), strict=True):
        expected, accepted = Outcome(), []
        for change, _ in changes:
            reason = gate.rejects(change.row, clock)
            if reason is None:
                accepted.append(change)
            else:
                expected.reject(reason, change)
        groups.step(clock.step, [accepted])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        gate.step_to(clock, groups.content())
        assert bench.output == gate.emitted
        assert bench.delta.timer_us == gate.timer_us(clock)
        assert not bench.content() - gate.emitted


def test_closed_groups_are_evicted() -> None:
    test = Below("d", "f")
    inner = AggregateSpec(("d",), GROUP_CALLS, append_only=False, scalar=False)
    spec = GatedAggregateSpec(inner, GateSpec(("d", *(each.out for each in GROUP_CALLS)), (test,), (test,)))
    bench = TimedBench(spec, GROUPED, ("d",), aggregates.hashes(inner))
    row = {"d": EPOCH, "k": "a", "i": 1, "n": None}
    bench.turn([(Change(row, 1), 0)], Clock(1, 0, {"f": None}))
    assert bench.rows_stored() == 3
    bench.turn([], Clock(2, 0, {"f": 1}))
    assert bench.output == Counter([picked({**row, "a": 1}, ["d", "a", "a", "a"])])
    assert (bench.delta.evicted, bench.rows_stored()) == (1, 0)
