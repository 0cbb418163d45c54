"""Sessions against the naive model: merged, split, closed and kept for one gap."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_windows import ARRIVALS, CALLS, ROW, SCHEMA, at
from tests.kernels.timed import TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference import Change
from tests.model.reference_time import GateModel, SessionWindows
from tests.tiers import examples
from tidegate.core.durations import CalendarInterval
from tidegate.ir.specs import AggregateCall, AggregateSpec, GatedAggregateSpec, GateSpec, WindowAggregateSpec
from tidegate.ir.specs import WatermarkTest as Below
from tidegate.ir.windows import WindowSpec
from tidegate.kernels import aggregates
from tidegate.kernels.api import INFINITE, Clock
from tidegate.kernels.window_aggregate import on_port

pytestmark = pytest.mark.usefixtures("tiny_chunks")


def session_spec(
    gap: int, calls: Sequence[AggregateCall], keyed: bool, lateness: int, delayed: bool, append: bool
) -> WindowAggregateSpec:
    window = WindowSpec("session", "ts", CalendarInterval(micros=gap))
    keys = (*(["k"] if keyed else []), "window_start", "window_end")
    return WindowAggregateSpec(window, AggregateSpec(keys, tuple(calls), append, scalar=False), "f", lateness, delayed)


def bench_of(spec: WindowAggregateSpec, gate: GateSpec | None = None) -> TimedBench:
    port = on_port(spec)
    return TimedBench(
        spec if gate is None else GatedAggregateSpec(spec, gate), SCHEMA, port.keys, aggregates.hashes(port)
    )


SPECS = st.tuples(st.sampled_from([1, 3, 6, 10]), st.booleans(), st.sampled_from([0, 0, 4]), st.booleans())


def some(calls: Sequence[AggregateCall]) -> st.SearchStrategy[list[AggregateCall]]:
    return st.lists(st.sampled_from(calls), min_size=1, max_size=2, unique=True)


@examples(60)
@given(SPECS, some(CALLS), drawn_steps(ROW, deletes=True), st.booleans())
def test_sessions_with_deletes(chosen: Any, calls: Any, drawn: Any, ends: bool) -> None:
    gap, keyed, lateness, delayed = chosen
    play(session_spec(gap, calls, keyed, lateness, delayed, append=False), drawn, ends)


@examples(40)
@given(SPECS, some(CALLS + ARRIVALS), drawn_steps(ROW, deletes=False), st.booleans())
def test_sessions_of_append_only_input(chosen: Any, calls: Any, drawn: Any, ends: bool) -> None:
    gap, keyed, lateness, delayed = chosen
    play(session_spec(gap, calls, keyed, lateness, delayed, append=True), drawn, ends)


def play(spec: WindowAggregateSpec, drawn: Any, ends: bool) -> None:
    bench, model = bench_of(spec), SessionWindows(spec)
    for step, clock, changes in zip(drawn, clocks(drawn, ends=ends), changes_of(drawn), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        assert bench.output == model.content()
        assert bench.content() == model.open()
        known = clock.previous_watermarks if spec.delayed else clock.watermarks
        assert known.get("f") != INFINITE or not bench.rows_stored(), "nothing is left at the end of input"


@examples(30)
@given(SPECS, drawn_steps(ROW, deletes=False), st.sampled_from([None, 7]), st.booleans())
def test_sessions_behind_a_gate(chosen: Any, drawn: Any, every: int | None, ends: bool) -> None:
    gap, keyed, lateness, delayed = chosen
    spec = session_spec(gap, CALLS[:2], keyed, lateness, delayed, append=True)
    columns = (*spec.aggregate.keys, *(each.out for each in CALLS[:2]))
    gate = GateSpec(columns, (Below("window_end", "f", inclusive=True),), (), every, delayed)
    bench, model, outer = bench_of(spec, gate), SessionWindows(spec), GateModel(gate)
    for step, clock, changes in zip(drawn, clocks(drawn, ends=ends), changes_of(drawn), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        outer.step_to(clock, model.content())
        assert bench.output == outer.emitted


def row(time_us: int, i: int = 1) -> Mapping[str, Any]:
    return {"k": "a", "ts": at(time_us), "i": i, "d": None, "s": None, "ok": None}


def spans(bench: TimedBench) -> list[tuple[int, int, int]]:
    return sorted((microseconds(start), microseconds(end), count) for start, end, count in bench.output)


def microseconds(time: datetime.datetime) -> int:
    return (time - at(0)) // datetime.timedelta(microseconds=1)


def test_a_row_merges_sessions_and_its_delete_splits_them() -> None:
    bench = bench_of(session_spec(10, CALLS[:1], False, 0, False, append=False))
    bench.turn([(Change(row(0), 1), 0), (Change(row(15), 1), 0), (Change(row(25), 1), 0)], Clock(1, 0))
    assert spans(bench) == [(0, 10, 1), (15, 25, 1), (25, 35, 1)]
    bench.turn([(Change(row(8), 1), 0)], Clock(2, 0))
    assert spans(bench) == [(0, 25, 3), (25, 35, 1)]
    bench.turn([(Change(row(8), -1), 0)], Clock(3, 0))
    assert spans(bench) == [(0, 10, 1), (15, 25, 1), (25, 35, 1)]


def test_a_closed_session_is_not_reopened() -> None:
    bench = bench_of(session_spec(10, CALLS[:1], False, 0, False, append=True))
    bench.turn([(Change(row(0), 1), 0)], Clock(1, 0, {"f": 0}))
    bench.turn([(Change(row(9), 1), 0), (Change(row(10), 1), 0)], Clock(2, 0, {"f": 12}, {"f": 0}))
    assert spans(bench) == [(0, 10, 1), (10, 20, 1)]
    assert bench.outcome.late.total() == 1


def test_no_row_joins_a_closed_session_to_an_open_one() -> None:
    bench = bench_of(session_spec(10, CALLS[:1], False, 0, False, append=True))
    bench.turn([(Change(row(0), 1), 0)], Clock(1, 0, {"f": 0}))
    bench.turn([(Change(row(time), 1), 0) for time in (12, 21, 30)], Clock(2, 0, {"f": 11}, {"f": 0}))
    bench.turn([(Change(row(8), 1), 0)], Clock(3, 0, {"f": 25}, {"f": 11}))
    assert bench.outcome.late.total() == 1
    bench.turn([(Change(row(8), 1), 0), (Change(row(13), 1), 0)], Clock(4, 0, {"f": 39}, {"f": 25}))
    assert bench.outcome.late.total() == 1
    assert spans(bench) == [(0, 10, 1), (12, 40, 4)]


def test_a_step_reads_only_the_keys_it_touches() -> None:
    spec = session_spec(10, CALLS[:1], True, 0, False, append=True)
    bench = bench_of(spec)
    many = [(Change({**row(0), "k": f"k{number}"}, 1), 0) for number in range(200)]
    bench.turn(many, Clock(1, 0, {"f": 0}))
    bench.turn([], Clock(2, 0, {"f": 10}, {"f": 0}))
    assert bench.delta.evicted == 200
    bench.turn([], Clock(3, 0, {"f": 30}, {"f": 10}))
    assert bench.rows_stored() == 0
