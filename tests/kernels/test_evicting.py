"""Operators that evict give the answers of those that keep everything, and keep no row that a watermark has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import AFTER_A_FAILURE, COLD, WARM, Bench
from tests.model.reference import Change, Row, model
from tests.model.reference_joins import IncrementalJoin
from tests.tiers import examples
from tidegate.ir.joins import Comparison, JoinSpec, KeyPair, OutputColumn
from tidegate.ir.specs import (
    AggregateCall,
    AggregateSpec,
    DistinctSpec,
    EvictingSpec,
    KernelSpec,
    Order,
    SetOpSpec,
    TopNSpec,
)
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels import aggregates, make, top_n
from tidegate.kernels.api import INFINITE, Clock, Delta, WatermarkValue
from tidegate.kernels.evicting import BY_TIME, Adopting, Evictable
from tidegate.kernels.state import MemorySegments, Store
from tidegate.kernels.top_n import ROW_HASH

pytestmark = pytest.mark.usefixtures("tiny_chunks")

COLUMNS = (("t", "k", "x"), ("u", "l", "y"))
STARTS = (0, datetime(2024, 5, 1, 12, tzinfo=UTC))
"""Where times begin: small numbers, which are far apart in the order of eviction, and timestamps, which are close."""


@dataclass
class DrawnRow:
    """A row as Hypothesis draws it: how far its time is above the watermark (None: NULL), and its other columns.
    `delete`: instead, one of the current rows that are not below the watermark is deleted."""

    above: int | None
    k: str | None
    x: int
    delete: bool
    choice: int
    block: int


ROWS = st.builds(
    DrawnRow,
    st.none() | st.integers(0, 3) | st.integers(0, 3),
    st.sampled_from(["a", "a", "b", None]),
    st.integers(1, 2),
    st.booleans(),
    st.integers(0, 50),
    st.integers(0, 2),
)
STEPS = st.lists(
    st.tuples(
        st.tuples(st.lists(ROWS, max_size=5), st.lists(ROWS, max_size=5)),
        st.tuples(*[st.none() | st.integers(0, 3)] * 2),
        st.sampled_from([WARM, COLD, AFTER_A_FAILURE]),
    ),
    min_size=1,
    max_size=8,
)


@dataclass
class EvictingBench(Bench):
    """A bench with the watermarks of its two ports, `left` and `right`, and their lesser, `both`."""

    clock: Clock = field(default_factory=lambda: Clock(0, 0))

    def __post_init__(self) -> None:
        assert isinstance(self.spec, EvictingSpec)
        inner = self.spec.inner
        self.kernel = make(self.spec)
        self.model = IncrementalJoin(inner) if isinstance(inner, JoinSpec) else model(inner)
        self.ports = 2 if isinstance(inner, JoinSpec | SetOpSpec) else 1

    def input_frame(self, port: int, changes: Any) -> pl.DataFrame | None:
        self.schema, self.key, self.hashes = ports_of(self.spec, self.clock_type)[port]
        return super().input_frame(port, changes)

    clock_type: pl.DataType = field(default_factory=pl.Int64)

    def _run(self, segments: MemorySegments, inputs: Sequence[Any]) -> Delta:
        state = Store(segments)
        frames = [self.input_frame(port, side) for port, side in enumerate(inputs)]
        delta = self.kernel.step(frames, self.clock, state, first=self.steps == 1)
        state.commit()
        return delta

    def _content(self) -> Counter[Row]:
        """What was emitted: evicted rows are no longer known."""
        return self.output

    def stored(self) -> list[tuple[int, pl.DataFrame]]:
        """The rows of every table, with their port."""
        assert isinstance(self.spec, EvictingSpec)
        kernel, state = make(self.spec.inner), Store(self.segments)
        assert isinstance(kernel, Evictable)
        tables = [(each.port, state.find_table(each.name + BY_TIME, each.ident)) for each in kernel.tables()]
        return [(port, table.scan()) for port, table in tables if table is not None]


def ports_of(spec: KernelSpec, time: pl.DataType) -> list[tuple[dict[str, pl.DataType], list[str], list[Any]]]:
    """Of each port: its schema, its key, and its further hashes."""
    assert isinstance(spec, EvictingSpec)
    inner = spec.inner
    schemas = [dict(zip(names, (time, pl.String(), pl.Int64()), strict=True)) for names in COLUMNS]
    match inner:
        case JoinSpec():
            keys = [[pair.left for pair in inner.keys], [pair.right for pair in inner.keys]]
            return [(schemas[side], keys[side], [(ROW_HASH, COLUMNS[side])]) for side in (0, 1)]
        case TopNSpec():
            return [(schemas[0], list(inner.partition), [(ROW_HASH, COLUMNS[0])])]
        case AggregateSpec():
            return [(schemas[0], list(inner.keys), list(aggregates.hashes(inner)))]
    return [(schemas[0], list(COLUMNS[0]), [])] * 2


def play(spec: EvictingSpec, drawn: Sequence[Any], start: Any, modulus: int, append_only: Sequence[bool]) -> None:
    """Runs random steps whose changes are not below the watermarks of the step before, as those of an operator that
    waits, then a step without input in which all watermarks are infinite."""
    timed = isinstance(start, datetime)
    bench = EvictingBench(spec, {}, (), modulus=modulus, clock_type=pl.Datetime("us", "UTC") if timed else pl.Int64())
    present: list[list[tuple[int | None, Mapping[str, Any]]]] = [[], []]
    now, before = [0, 0], [0, 0]
    for number, (sides, advances, begin) in enumerate(drawn, start=1):
        inputs = []
        for port, side in enumerate(sides[: bench.ports]):
            names = COLUMNS[port] if isinstance(spec.inner, JoinSpec) else COLUMNS[0]
            changes = []
            for each in side:
                live = [place for place, (at, _) in enumerate(present[port]) if at is None or at >= before[port]]
                if each.delete and live and not append_only[port]:
                    _, row = present[port].pop(live[each.choice % len(live)])
                    changes.append((Change(row, -1), each.block))
                else:
                    at = None if each.above is None else before[port] + each.above
                    row = dict(zip(names, (moment(start, at), each.k, each.x), strict=True))
                    present[port].append((at, row))
                    changes.append((Change(row, 1), each.block))
            inputs.append(changes)
        bench.clock = Clock(number, 0, watermarks(start, now), watermarks(start, before))
        bench.step(inputs, begin)
        check_stored(bench, start, now)
        before, now = now, [mark + (advance or 0) for mark, advance in zip(now, advances, strict=True)]
    bench.clock = Clock(len(drawn) + 1, 0, dict.fromkeys(("left", "right", "both"), INFINITE), watermarks(start, now))
    bench.step([[] for _ in range(bench.ports)])
    for port, rows in bench.stored():
        if spec.evict_before[port]:
            assert rows[spec.order[port]].is_null().all(), "at the end only rows without a time are stored"


def moment(start: Any, at: int | None) -> Any:
    if at is None:
        return None
    return start + timedelta(seconds=at) if isinstance(start, datetime) else start + at


def watermarks(start: Any, values: Sequence[int]) -> dict[str, WatermarkValue]:
    both = [*values, min(values)]
    physical = [int(moment(start, each).timestamp() * 1e6) if isinstance(start, datetime) else each for each in both]
    return dict(zip(("left", "right", "both"), physical, strict=True))


def check_stored(bench: EvictingBench, start: Any, now: Sequence[int]) -> None:
    values = watermarks(start, now)
    for port, rows in bench.stored():
        for test in bench.spec.evict_before[port]:  # type: ignore[union-attr]
            passed = rows[test.column].to_physical() < values[test.watermark]
            assert not passed.any(), "a row that the watermark has passed is stored"


def over(port: int, watermark: str) -> tuple[WatermarkTest, ...]:
    return (WatermarkTest(COLUMNS[port][0], watermark),)


SIDES = tuple(tuple(OutputColumn(name, side, name) for name in COLUMNS[side]) for side in (0, 1))


@st.composite
def joins(draw: Any) -> EvictingSpec:
    kind = draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    time = KeyPair("t", "u", draw(st.booleans()))
    keys = draw(st.sampled_from([(time,), (time, KeyPair("k", "l")), (KeyPair("k", "l"), time)]))
    outputs = SIDES[0] if kind in ("semi", "anti") else SIDES[0] + SIDES[1]
    conditions = draw(st.sampled_from([(), (Comparison("x", "<=", "y"),)]))
    append_only = (draw(st.booleans()), draw(st.booleans()))
    inner = JoinSpec(kind, keys, outputs, COLUMNS, conditions, append_only)
    of_right = "both" if kind in ("semi", "anti") else "left"
    tests = draw(st.sampled_from([(True, True), (True, True), (True, False), (False, True)]))
    evict = (over(0, "right") if tests[0] else (), over(1, of_right) if tests[1] else ())
    return EvictingSpec(inner, ("t", "u"), evict)


@examples(150)
@given(joins(), STEPS, st.sampled_from(STARTS), st.sampled_from([0, 3]))
def test_a_join_that_evicts_is_the_batch_answer_after_every_step(
    spec: Any, drawn: Any, start: Any, modulus: int
) -> None:
    play(spec, drawn, start, modulus, spec.inner.append_only)


def test_a_row_that_decides_is_known_until_both_watermarks_have_passed() -> None:
    """Its retraction must find it, though no row on the left can come any more."""
    inner = JoinSpec("semi", (KeyPair("t", "u"),), SIDES[0], COLUMNS)
    bench = EvictingBench(EvictingSpec(inner, ("t", "u"), (over(0, "right"), over(1, "both"))), {}, ())
    right = Change({"u": 1, "l": "a", "y": 1}, 1)
    bench.step([[(Change({"t": 1, "k": "a", "x": 1}, 1), 0)], [(right, 0)]])
    bench.clock = Clock(2, 0, {"left": 5, "right": 1, "both": 1})
    bench.step([[], []])
    assert bench.output
    bench.step([[], [(replace(right, weight=-1), 0)]])
    assert not bench.output


CALLS = (
    AggregateCall("sum", ("x",), ("bigint",), "total", "bigint"),
    AggregateCall("max", ("x",), ("bigint",), "top", "bigint"),
    AggregateCall("count", ("x",), ("bigint",), "kinds", "bigint", distinct=True),
)


def top(function: str = "row_number", append_only: bool = False, partition: tuple[str, ...] = ("t",)) -> TopNSpec:
    order = (Order("x", True, False),)
    return TopNSpec(COLUMNS[0], partition, order, 1, 1, function, "place", append_only)


SINGLE = {
    "groups": AggregateSpec(("k", "t"), CALLS, append_only=False, scalar=False),
    "groups of rows that stay": AggregateSpec(("t",), CALLS, append_only=True, scalar=False),
    "distinct rows": DistinctSpec(COLUMNS[0], append_only=False),
    "distinct rows that stay": DistinctSpec(COLUMNS[0], append_only=True),
    "except": SetOpSpec("except", False, COLUMNS[0]),
    "intersect all": SetOpSpec("intersect", True, COLUMNS[0]),
    "ranks per time": top("rank"),
    "the first rows per time": top(),
    "the first rows per time of rows that stay": top("dense_rank", append_only=True),
}


@pytest.fixture(autouse=True, scope="module")
def short_windows() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_n, "LEAST_SLACK", 1)
        yield


@pytest.mark.parametrize("name", SINGLE)
@examples(30)
@given(STEPS, st.sampled_from(STARTS), st.sampled_from([0, 3]))
def test_an_operator_that_evicts_is_the_batch_answer_after_every_step(
    name: str, drawn: Any, start: Any, modulus: int
) -> None:
    inner: Any = SINGLE[name]
    sides = 2 if isinstance(inner, SetOpSpec) else 1
    spec = EvictingSpec(inner, ("t",) * sides, (over(0, "both" if sides == 2 else "left"),) * sides)
    play(spec, drawn, start, modulus, [getattr(inner, "append_only", False)] * 2)


ADOPTED: dict[str, Any] = {
    "join": JoinSpec("left", (KeyPair("k", "l"), KeyPair("t", "u")), SIDES[0] + SIDES[1], COLUMNS),
    "groups": SINGLE["groups"],
    "distinct": SINGLE["distinct rows"],
    "top": top(),
    "set operation": SINGLE["except"],
}


@pytest.mark.parametrize("name", ADOPTED)
def test_state_that_was_stored_without_eviction_is_taken_over(name: str) -> None:
    """An op keeps its id, so it finds the tables of a version that evicted nothing."""
    inner = ADOPTED[name]
    sides = 2 if isinstance(inner, JoinSpec | SetOpSpec) else 1
    columns = ("t", "u") if isinstance(inner, JoinSpec) else ("t", "t")
    spec = EvictingSpec(inner, columns[:sides], tuple((WatermarkTest(each, "both"),) for each in columns[:sides]))
    bench = EvictingBench(spec, {}, ())
    evicting, bench.kernel = bench.kernel, make(inner)
    names = [COLUMNS[side if isinstance(inner, JoinSpec) else 0] for side in range(sides)]

    def rows(side: int, *times: int, weight: int = 1) -> list[tuple[Change, int]]:
        return [(Change(dict(zip(names[side], (at, "a", 1), strict=True)), weight), 0) for at in times]

    bench.step([rows(side, 1, 2, 2, 3) for side in range(sides)])
    state = Store(bench.segments)
    assert isinstance(evicting, Adopting) and evicting.adopt(state)
    state.commit()
    assert not evicting.adopt(Store(bench.segments)), "once"
    bench.kernel = evicting
    bench.clock = Clock(2, 0, {"both": 2})
    bench.step([rows(side, 2, weight=-1) + rows(side, 3) for side in range(sides)])
    times = [stored[columns[port]].to_list() for port, stored in bench.stored()]
    assert times and all(min(each) == 2 for each in times if each), "older rows were evicted"
    assert evicting.content(Store(bench.segments)) is not None
    bench.clock = Clock(3, 0, {"both": INFINITE})
    bench.step([[] for _ in range(sides)])
    assert Store(bench.segments).stats()[0] == 0


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
def test_of_rows_that_stay_only_the_top_is_stored(function: str) -> None:
    bench = Bench(
        top(function, append_only=True, partition=("k",)),
        dict(zip(COLUMNS[0], (pl.Int64(), pl.String(), pl.Int64()), strict=True)),
        ("k",),
        [(ROW_HASH, COLUMNS[0])],
    )
    for number in range(1, 60):
        bench.step([[(Change({"t": number, "k": key, "x": number}, 1), 0) for key in "ab"]])
        assert Store(bench.segments).stats()[0] <= 4, "two ranks of two keys"


def test_what_a_version_stored_behind_the_top_is_dropped() -> None:
    schema = dict(zip(COLUMNS[0], (pl.Int64(), pl.String(), pl.Int64()), strict=True))
    spec = top(partition=("k",))
    bench = Bench(spec, schema, ("k",), [(ROW_HASH, COLUMNS[0])])
    bench.step([[(Change({"t": number, "k": "a", "x": number}, 1), 0) for number in range(40)]])
    assert Store(bench.segments).stats()[0] > 40
    bench.kernel = make(replace(spec, append_only=True))
    bench.step([[(Change({"t": 1, "k": "a", "x": 100}, 1), 0)]])
    assert Store(bench.segments).stats()[0] == 2
