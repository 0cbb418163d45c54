"""Windows against the naive model: their bounds, and GROUP BY over them with an advancing watermark."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import DrawnChange
from tests.kernels.test_aggregate import call
from tests.kernels.timed import DrawnStep, TimedBench, changes_of, clocks, drawn_steps
from tests.model.reference_time import EPOCH, Windows, windows
from tests.tiers import examples
from tidegate.core.durations import CalendarInterval
from tidegate.ir.specs import AggregateCall, AggregateSpec, WindowAggregateSpec
from tidegate.ir.windows import WindowSpec
from tidegate.kernels import aggregates
from tidegate.kernels.api import INFINITE
from tidegate.kernels.window_aggregate import on_port
from tidegate.kernels.windows import Grid, earliest_open
from tidegate.testing.oracle.amounts import micros

pytestmark = pytest.mark.usefixtures("tiny_chunks")

UTC = datetime.UTC
YEAR = 365 * 86_400_000_000


def lengths(unit: str) -> st.SearchStrategy[WindowSpec]:
    """Windows of all kinds, some with lengths that do not divide each other."""

    def make(kind: str, size: int, slide: int, offset: int) -> WindowSpec:
        size, slide = (max(size, slide), min(size, slide)) if kind == "cumulate" else (size, slide)
        step = None if kind == "tumble" else CalendarInterval(**{unit: slide})
        return WindowSpec(kind, "ts", CalendarInterval(**{unit: size}), step, offset)

    small = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12])
    return st.builds(make, st.sampled_from(["tumble", "hop", "cumulate"]), small, small, st.integers(-9, 9))


TIMES = st.one_of(
    st.integers(-30, 30),
    st.integers(micros(datetime.datetime(1, 1, 1)), micros(datetime.datetime(9999, 12, 31, 23))),
    st.sampled_from(
        [micros(datetime.datetime(y, m, d)) + e for y, m, d in [(2024, 2, 29), (1969, 12, 1)] for e in (-1, 0)]
    ),
)


@examples(150)
@given(lengths("micros") | lengths("months"), st.lists(TIMES, min_size=1, max_size=5), TIMES)
def test_windows_equal_those_of_the_model(spec: WindowSpec, times: list[int], after: int) -> None:
    far = YEAR * 2
    times = [
        min(max(time, micros(datetime.datetime(1, 1, 1)) + far), micros(datetime.datetime(9998, 1, 1)))
        for time in times
    ]
    grid, numbers = Grid(spec), np.array(times, dtype=np.int64)
    assigned = grid.windows(numbers)
    expected = {
        (row, micros(start), micros(end))
        for row, time in enumerate(times)
        for start, end in windows(spec, EPOCH + datetime.timedelta(microseconds=time))
    }
    assert sorted(zip(assigned.row.tolist(), assigned.start.tolist(), assigned.end.tolist(), strict=True)) == sorted(
        expected
    )
    assert grid.covered(numbers).tolist() == [
        any(row == index for row, _, _ in expected) for index in range(len(times))
    ]
    panes = grid.windows(grid.panes(numbers))
    assert (panes.start.tolist(), panes.end.tolist()) == (assigned.start.tolist(), assigned.end.tolist())
    assert (grid.panes(numbers) <= numbers).all()
    later = grid.windows(numbers, after)
    assert sorted(later.end.tolist()) == sorted(end for _, _, end in expected if end > after)
    start, end = earliest_open(spec, times[0])
    assert start is not None and end > times[0]
    late = [time for row, time in enumerate(times) if all(e <= times[0] for r, _, e in expected if r == row)]
    assert all(time < start for time in late if grid.covered(np.array([time]))[0])
    assert all(e >= end and s >= start for _, s, e in expected if e > times[0])


@pytest.mark.parametrize(
    ("spec", "time", "expected"),
    [
        (WindowSpec("tumble", "ts", CalendarInterval(micros=1000)), -1, (-1000, 0)),
        (WindowSpec("hop", "ts", CalendarInterval(micros=10), CalendarInterval(micros=4)), 10, (4, 14)),
        (WindowSpec("hop", "ts", CalendarInterval(micros=10), CalendarInterval(micros=4)), 9, (0, 10)),
        (WindowSpec("cumulate", "ts", CalendarInterval(micros=12), CalendarInterval(micros=4)), 5, (0, 8)),
        (WindowSpec("tumble", "ts", CalendarInterval(months=1)), 0, (0, 31 * 86_400_000_000)),
        (WindowSpec("session", "ts", CalendarInterval(micros=5)), 7, (None, 8)),
    ],
)
def test_the_earliest_open_window(spec: WindowSpec, time: int, expected: tuple[int | None, int]) -> None:
    assert earliest_open(spec, time) == expected


def test_panes_are_as_long_as_possible() -> None:
    grid = Grid(WindowSpec("hop", "ts", CalendarInterval(micros=10), CalendarInterval(micros=4)))
    assert np.unique(grid.panes(np.arange(0, 12))).tolist() == [0, 2, 4, 6, 8, 10]


SCHEMA = {
    "k": pl.String(),
    "ts": pl.Datetime("us", "UTC"),
    "i": pl.Int64(),
    "d": pl.Float64(),
    "s": pl.String(),
    "ok": pl.Boolean(),
}


def at(time_us: int) -> datetime.datetime:
    return EPOCH.replace(tzinfo=UTC) + datetime.timedelta(microseconds=time_us)


ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "ts": st.none() | st.integers(-10, 60).map(at),
        "i": st.sampled_from([1, 2, 3, -7, None]),
        "d": st.sampled_from([0.5, -0.0, 0.25, float("nan"), None]),
        "s": st.sampled_from(["x", "y", None]),
        "ok": st.sampled_from([True, False, None]),
    }
)
CALLS = (
    call("count", type="bigint"),
    call("sum", "i", type="bigint"),
    call("sum", "d", type="double"),
    call("count", "i", type="bigint", distinct=True),
    call("min", "d", type="double", filter="ok"),
    call("max_by", "s", "i", type="string"),
    call("array_agg", "i", type="array<bigint>"),
)
ARRIVALS = (call("first", "s", type="string"), call("last", "i", type="bigint", filter="ok"))
SPECS = st.tuples(
    lengths("micros"),
    st.lists(st.sampled_from(CALLS + ARRIVALS), min_size=1, max_size=3, unique=True),
    st.booleans(),
    st.sampled_from([0, 0, 3, 11]),
    st.booleans(),
)


def bench_of(
    window: WindowSpec, calls: list[AggregateCall], keyed: bool, lateness: int, delayed: bool, append: bool
) -> TimedBench:
    keys = (*(["k"] if keyed else []), "window_start", "window_end")
    aggregate = AggregateSpec(keys, tuple(calls), append, scalar=False)
    spec = WindowAggregateSpec(window, aggregate, "f", lateness, delayed)
    port = on_port(spec)
    return TimedBench(spec, SCHEMA, port.keys, aggregates.hashes(port))


@pytest.mark.parametrize("append_only", [True, False])
@examples(30)
@given(drawn=st.data(), chosen=SPECS, ends=st.booleans())
def test_grouping_by_windows(append_only: bool, drawn: Any, chosen: Any, ends: bool) -> None:
    play(bench_of(*chosen, append_only), drawn.draw(drawn_steps(ROW, deletes=not append_only)), append_only, ends)


def play(bench: TimedBench, drawn: Any, positions: bool, ends: bool) -> None:
    assert isinstance(bench.spec, WindowAggregateSpec)
    model = Windows(bench.spec)
    for step, clock, changes in zip(drawn, clocks(drawn, ends=ends), changes_of(drawn, positions), strict=True):
        expected = model.step(clock, [change for change, _ in changes])
        bench.turn(changes, clock, step.begin)
        assert bench.outcome == expected
        assert bench.output == model.content()
        assert bench.content() == model.open(clock)
        if clock.watermarks["f"] == INFINITE:
            assert bench.rows_stored() == 0


def test_exact_sums_of_hopping_windows_are_separate() -> None:
    """Limbs of several windows have the same index, and must not be added together."""
    window = WindowSpec("hop", "ts", CalendarInterval(micros=8), CalendarInterval(micros=1))
    row = {"k": "a", "i": 1, "s": "x", "ok": True}
    values = (0, 0.25), (3, 0.5), (3, 0.5)
    changes = [DrawnChange({**row, "ts": at(time), "d": value}, False, 0, 0) for time, value in values]
    play(bench_of(window, [CALLS[2]], False, 0, False, False), [DrawnStep(changes, (None,), 0, 0)], False, False)


@pytest.mark.parametrize("type", ["date", "timestamp_ntz"])
def test_other_types_of_time(type: str) -> None:
    day = 86_400_000_000
    column = pl.Date() if type == "date" else pl.Datetime("us")
    window = WindowSpec("tumble", "ts", CalendarInterval(micros=2 * day), type=type)
    spec = WindowAggregateSpec(window, AggregateSpec(("window_start", "window_end"), (CALLS[0],), True, False), "f")
    bench, model = TimedBench(spec, {"ts": column}, ()), Windows(spec)
    times: list[datetime.date] = [datetime.date(2024, 5, 1 + n) for n in (0, 1, 4, 0)]
    if type == "timestamp_ntz":
        times = [datetime.datetime(time.year, time.month, time.day) for time in times]
    drawn = [DrawnStep([DrawnChange({"ts": time}, False, 0, 0)], (None,), 0, 0) for time in times]
    watermark = micros(datetime.datetime(2024, 5, 3))
    for clock, changes in zip(clocks(drawn), changes_of(drawn), strict=True):
        late = {"f": None if clock.step < 4 else watermark // (day if type == "date" else 1)}
        bench.turn(changes, type_clock(clock, late))
        model.step(type_clock(clock, {"f": None if clock.step < 4 else watermark}), [change for change, _ in changes])
        assert bench.output == model.content()
    assert bench.outcome.late.total() == 1
    assert bench.delta.evicted == 1


def type_clock(clock: Any, watermarks: Any) -> Any:
    return type(clock)(clock.step, clock.time_us, watermarks, {}, 0)


def test_state_of_closed_windows_is_evicted() -> None:
    calls = [CALLS[0], CALLS[3], CALLS[4]]
    bench = bench_of(WindowSpec("tumble", "ts", CalendarInterval(micros=10)), calls, True, 0, False, False)
    sizes = []
    for number in range(48):
        row = {"k": "a", "ts": at(10 * number), "i": number, "d": 0.5, "s": "x", "ok": True}
        drawn = [DrawnStep([DrawnChange(row, False, 0, 0)], (None,), 0, 0)]
        clock = type_clock(clocks(drawn)[0], {"f": 10 * number - 10})
        bench.turn(changes_of(drawn)[0], clock)
        sizes.append((bench.rows_stored(), len(bench.segments.blobs)))
    assert max(rows for rows, _ in sizes) <= 6
    assert max(blobs for _, blobs in sizes[24:]) <= max(blobs for _, blobs in sizes[:24])
