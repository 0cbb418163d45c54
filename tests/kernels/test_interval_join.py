"""Interval joins against the naive model: pairs, padded rows, early results and eviction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import COLD
from tests.kernels.timed import DrawnStep, TimedBench, changes_of, clocks, count_rows, drawn_steps
from tests.model.reference import Change, Row, plain
from tests.model.reference_intervals import IntervalJoin
from tests.tiers import examples
from tidegate.core.columns import WEIGHT
from tidegate.ir.joins import Comparison, EarlyFire, IntervalJoinSpec, KeyPair, OutputColumn
from tidegate.kernels.api import INFINITE, Clock, Delta
from tidegate.kernels.joins import interval_side
from tidegate.kernels.state import Store

SCHEMA = {"k": pl.Int64(), "t": pl.Int64(), "v": pl.Int64(), "x": pl.Float64()}
COLUMNS = tuple(SCHEMA)
PAIRS = tuple(OutputColumn(f"{'lr'[side]}_{name}", side, name) for side in (0, 1) for name in COLUMNS)
SINGLES = tuple(output for output in PAIRS if output.side == 0)
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
OUTER = ["left", "right", "full"]
CORRECTION_ID = "m"
Changes = Sequence[tuple[Change, int]]


@pytest.fixture(scope="module", autouse=True)
def tiny_slices(tiny_chunks: None) -> Iterator[None]:
    """Slices so short that times of a few microseconds are in several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_side, "SHORTEST_US", 2)
        yield


@dataclass
class JoinBench(TimedBench):
    """A bench of a join whose sides have the same columns."""

    def _is_first(self, clock: Clock, state: Store) -> bool:
        return state.fresh

    def _integrate(self, delta: Delta) -> None:
        """Ignores correction ids: without them, no row is both inserted and retracted."""
        rows = delta.rows
        super()._integrate(delta if rows is None else replace(delta, rows=rows.drop(CORRECTION_ID, strict=False)))

    def content(self) -> Counter[Row]:
        content = self.kernel.content(Store(self.segments))
        return Counter() if content is None else count_rows(content.drop(CORRECTION_ID, strict=False))

    def corrections(self) -> Counter[tuple[Row, Row]]:
        """The pairs of rows of the last step with the same correction id: the retracted row and the inserted one."""
        corrections: Counter[tuple[Row, Row]] = Counter()
        rows = self.delta.rows
        if rows is None or CORRECTION_ID not in rows.columns:
            return corrections
        with_id = rows.filter(pl.col(CORRECTION_ID).is_not_null())
        for (id,), both in with_id.group_by(CORRECTION_ID):
            assert both.height == 2 and both[WEIGHT].sum() == 0, (id, both)
            retracted, inserted = (
                tuple(plain(value) for value in row)
                for row in both.sort(WEIGHT).drop(CORRECTION_ID, WEIGHT).iter_rows()
            )
            corrections[retracted, inserted] += both[WEIGHT].max()  # type: ignore[assignment, operator]
        return corrections


def bench_of(spec: IntervalJoinSpec, modulus: int = 0) -> JoinBench:
    return JoinBench(spec, SCHEMA, [pair.left for pair in spec.keys], modulus=modulus)


ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 1, 1, 2, None]),
        "t": st.sampled_from([None, *range(-5, 20)]),
        "v": st.sampled_from([1, 2, None]),
        "x": st.sampled_from([0.0, -0.0, float("nan"), 1.5, None]),
    }
)
SPARSE = st.fixed_dictionaries(
    {"k": st.integers(1, 4), "t": st.integers(0, 12), "v": st.sampled_from([1, 2]), "x": st.sampled_from([0.5, None])}
)
"""Rows that often have no match at first."""
KEYS = st.sampled_from([(), (KeyPair("k", "k"),), (KeyPair("k", "k"),), (KeyPair("k", "k", True),)])
CONDITIONS = st.sampled_from(
    [*[()] * 6, *((Comparison("x", op, "x"),) for op in ("=", "<>", "<", ">=", "<=>")), (Comparison("v", "<=", "v"),)]
)
BOUNDS = st.tuples(st.integers(-12, 8), st.integers(-1, 14)).map(lambda pair: (pair[0], pair[0] + pair[1]))
WIDE = st.tuples(st.integers(-10, 0), st.integers(6, 20))
FLAGS = st.tuples(st.booleans(), st.booleans())


def spec(kind: str, lower: int = -10, upper: int = 10, **others: Any) -> IntervalJoinSpec:
    plain = {"keys": (KeyPair("k", "k"),), "watermarks": ("f", "g"), "append_only": (True, True)}
    fields: Any = {**plain, "correction_id": CORRECTION_ID if others.get("early") else None, **others}
    outputs = SINGLES if kind in ("semi", "anti") else PAIRS
    return IntervalJoinSpec(
        kind, outputs=outputs, columns=(COLUMNS, COLUMNS), times=("t", "t"), lower=lower, upper=upper, **fields
    )


def specs(kinds: Sequence[str], bounds: Any = BOUNDS, **others: Any) -> st.SearchStrategy[IntervalJoinSpec]:
    drawn = {"keys": KEYS, "conditions": CONDITIONS, "delayed": FLAGS, "append_only": FLAGS, **others}
    fields = st.fixed_dictionaries(drawn)
    return st.builds(lambda kind, ends, fields: spec(kind, *ends, **fields), st.sampled_from(kinds), bounds, fields)


def drawn_sides(spec: IntervalJoinSpec, draw: Any, row: Any) -> list[list[DrawnStep]]:
    """Steps of both sides, of which one may start later than the other. The clock is that of the first side, whose
    watermarks advance at one of several speeds."""
    empty, sides = DrawnStep([], (3, 3), 3, 0), []
    for append in spec.append_only:
        parts = [draw(drawn_steps(row, deletes=not append, watermarks=2, most=most)) for most in (3, 4)]
        sides.append([*[empty] * draw(st.sampled_from([0, 0, 1, 2, 3])), *parts[0], *parts[1]])
    pace, length = draw(st.sampled_from([1, 3, 6])), max(len(side) for side in sides)
    left, right = ([*side, *[empty] * (length - len(side))] for side in sides)
    return [
        [replace(each, advances=tuple(advance and advance // pace for advance in each.advances)) for each in left],
        right,
    ]


def play(spec: IntervalJoinSpec, draw: Any, ends: bool, modulus: int, row: Any = ROW) -> None:
    """Compares kernel and model step by step."""
    bench, model, sides = bench_of(spec, modulus), IntervalJoin(spec), drawn_sides(spec, draw, row)
    changes = zip(*(changes_of(side, positions=False) for side in sides), strict=True)
    for step, clock, both in zip(sides[0], clocks(sides[0], "fg", ends=ends), changes, strict=True):
        result = model.step(clock, [[change for change, _ in side] for side in both])
        bench.turn_all(both, clock, step.begin)
        check(bench, model, clock)
        assert bench.outcomes == result.late
        assert len(bench.delta.errors) == result.missing
        if spec.correction_id is not None:
            assert bench.corrections() == result.corrections


def check(bench: JoinBench, model: IntervalJoin, clock: Clock) -> None:
    spec = bench.spec
    assert isinstance(spec, IntervalJoinSpec)
    assert bench.output == model.content()
    assert not bench.content() - bench.output
    if spec.early is None and all(spec.append_only) and bench.delta.rows is not None:
        assert (bench.delta.rows[WEIGHT] > 0).all(), "no retractions"
    timer_us, expected = bench.delta.timer_us, model.next_us()
    assert (timer_us is None) == (expected is None)
    assert timer_us is None or expected is None or clock.time_us < timer_us <= expected
    if not spec.proctime and set(clock.watermarks.values()) == {INFINITE}:
        assert bench.rows_stored() == 0


MODULUS = st.sampled_from([0, 0, 3])


@examples(45)
@given(st.data(), specs(KINDS), st.booleans(), MODULUS)
def test_rows_of_both_sides_join_within_an_interval(data: Any, spec: Any, ends: bool, modulus: int) -> None:
    play(spec, data.draw, ends, modulus)


EARLY = st.builds(EarlyFire, st.sampled_from([1, 1, 2, 5, 12]), st.sampled_from(["rowtime", "proctime"]))


@examples(45)
@given(st.data(), specs(OUTER, WIDE, early=EARLY), st.booleans(), MODULUS, st.sampled_from([ROW, SPARSE, SPARSE]))
def test_early_paddings_are_corrected(data: Any, spec: Any, ends: bool, modulus: int, row: Any) -> None:
    play(spec, data.draw, ends, modulus, row)


ONE_ZERO = ROW.map(lambda row: {**row, "x": None if row["x"] is None else row["x"] + 0.0})
"""Rows without -0.0, because an error shows one of several equal rows."""
BY_THE_CLOCK = st.none() | st.builds(EarlyFire, st.sampled_from([1, 4, 9]), st.just("proctime"))


@examples(35)
@given(
    st.data(),
    specs(KINDS, proctime=st.just(True)) | specs(OUTER, proctime=st.just(True), early=BY_THE_CLOCK),
    MODULUS,
)
def test_processing_time(data: Any, spec: Any, modulus: int) -> None:
    play(spec, data.draw, False, modulus, ONE_ZERO)


def row(key: int | None, time: int | None, value: int = 0) -> dict[str, Any]:
    return {"k": key, "t": time, "v": value, "x": None}


def turn(
    bench: JoinBench,
    step: int,
    left: Sequence[Any] = (),
    right: Sequence[Any] = (),
    time_us: int = 0,
    **watermarks: Any,
) -> list[tuple[Any, ...]]:
    """Runs one step and returns its output as (weight, left value, right value), followed by the number of its
    correction id, if any."""
    sides: Any = [[(each if isinstance(each, Change) else Change(each, 1), 0) for each in s] for s in (left, right)]
    bench.turn_all(sides, Clock(step, time_us, watermarks, {}, 0), COLD)
    if bench.delta.rows is None:
        return []
    rows = list(bench.delta.rows.iter_rows(named=True))
    ids = sorted({row[CORRECTION_ID] for row in rows if row.get(CORRECTION_ID)})
    changes = [(row[WEIGHT], row.get("l_v"), row.get("r_v"), row.get(CORRECTION_ID)) for row in rows]
    return sorted(((*row[:3], ids.index(row[3])) if row[3] else row[:3] for row in changes), key=str)


def early(kind: str, delay: int, mode: str, **others: Any) -> JoinBench:
    return bench_of(spec(kind, early=EarlyFire(delay, mode), **others))


def test_an_early_padding_is_retracted_by_the_first_match() -> None:
    bench = early("left", 5, "rowtime")
    assert turn(bench, 1, [row(1, 100, 7)], f=90, g=90) == []
    assert turn(bench, 2, f=105, g=104) == []
    assert turn(bench, 3, f=106, g=105) == [(1, 7, None)]
    assert turn(bench, 4, f=106, g=106) == []
    assert turn(bench, 5, [], [row(1, 107, 1), row(1, 106, 9), row(1, 106, 2)], f=106, g=106) == [
        (-1, 7, None, 0),
        (1, 7, 1),
        (1, 7, 2, 0),
        (1, 7, 9),
    ]
    assert turn(bench, 6, [], [row(1, 110, 3)], f=106, g=106) == [(1, 7, 3)]
    assert turn(bench, 7, f=INFINITE, g=INFINITE) == []


@pytest.mark.parametrize("kind", ["right", "full"])
def test_early_paddings_of_the_right_by_the_processing_clock(kind: str) -> None:
    bench = early(kind, 5_000, "proctime")
    assert turn(bench, 1, [], [row(1, 100, 7)], time_us=1_000, f=90, g=90) == []
    assert bench.delta.timer_us == 6_000
    assert turn(bench, 2, time_us=5_999, f=90, g=90) == []
    assert turn(bench, 3, time_us=6_000, f=90, g=90) == [(1, None, 7)]
    assert bench.delta.timer_us is None
    assert turn(bench, 4, [row(1, 95, 8)], time_us=6_001, f=90, g=90) == [(-1, None, 7, 0), (1, 8, 7, 0)]


def test_a_row_that_is_early_in_its_first_step_is_padded_in_it() -> None:
    bench = early("full", 5, "rowtime")
    assert turn(bench, 1, [row(1, 100, 1), row(2, 100, 2)], [row(2, 105, 3)], f=99, g=105) == [(1, 2, 3)]
    assert turn(bench, 2, [row(1, 105, 4), row(3, 110, 5)], f=105, g=200) == [(1, 1, None), (1, 4, None), (1, 5, None)]


def test_inner_joins_never_wait() -> None:
    bench = bench_of(spec("inner", early=EarlyFire(1, "rowtime")))
    assert turn(bench, 1, [row(1, 100, 7)], f=0, g=0) == []
    assert turn(bench, 2, [], [row(1, 90, 8), row(1, 89, 9), row(1, 110, 5)], f=90, g=89) == [(1, 7, 5), (1, 7, 8)]
    assert turn(bench, 3, f=110, g=111) == []


def deletions(*rows: dict[str, Any]) -> list[Change]:
    return [Change(row, -1) for row in rows]


def test_a_padding_returns_when_the_last_match_is_deleted() -> None:
    bench = early("left", 5, "rowtime", append_only=(False, False))
    turn(bench, 1, [row(1, 100, 7)] * 2, [row(1, 107, 1), row(1, 108, 2)], f=90, g=90)
    assert turn(bench, 2, f=105, g=105) == []
    assert turn(bench, 3, [], deletions(row(1, 107, 1)), f=105, g=105) == [(-2, 7, 1)]
    assert turn(bench, 4, [], deletions(row(1, 108, 2)), f=105, g=105) == [(-2, 7, 2, 0), (2, 7, None, 0)]
    assert turn(bench, 5, [], [row(1, 110, 3)] * 3, f=105, g=105) == [(-2, 7, None, 0), (2, 7, 3, 0), (4, 7, 3)]


def test_a_padding_waits_until_no_match_can_come() -> None:
    bench = bench_of(spec("full", -3, 5))
    assert turn(bench, 1, [row(1, 100, 1)], [row(2, 100, 2)], f=100, g=100) == []
    assert turn(bench, 2, f=103, g=105) == []
    assert turn(bench, 3, f=104, g=105) == [(1, None, 2)]
    assert turn(bench, 4, [], [row(1, 105, 3)], f=104, g=105) == [(1, 1, 3)]
    assert turn(bench, 5, f=104, g=106) == []
    assert turn(bench, 6, f=INFINITE, g=INFINITE) == []


def test_rows_that_can_never_match_are_padded_at_once_and_not_stored() -> None:
    bench = bench_of(spec("full", append_only=(False, False)))
    unable = [row(None, 5, 1), row(1, None, 2)], [row(None, 5, 3)]
    assert turn(bench, 1, *unable) == [(1, 1, None), (1, 2, None), (1, None, 3)]
    assert bench.rows_stored() == 0
    assert turn(bench, 2, deletions(row(1, None, 2))) == [(-1, 2, None)]
    bench = bench_of(spec("anti", 5, 4))
    assert turn(bench, 1, [row(1, 5, 1)], [row(1, 5, 2)]) == [(1, 1, None)]
    assert bench.rows_stored() == 0


def test_a_row_at_its_watermark_is_accepted_and_one_below_is_late() -> None:
    bench = bench_of(spec("inner", append_only=(False, True)))
    turn(bench, 1, [row(1, 9, 1), row(1, 10, 2)], [row(1, 10, 3)], f=10, g=5)
    assert bench.outcomes[0].late.total() == 1
    assert turn(bench, 2, deletions(row(1, 10, 2)), f=10, g=5) == [(-1, 2, 3)]
    turn(bench, 3, deletions(row(1, 10, 2)), f=11, g=5)
    assert bench.outcomes[0].late.total() == -1


@pytest.mark.parametrize("fire", [None, EarlyFire(5, "proctime")])
def test_a_padded_row_can_be_deleted_while_that_is_not_late(fire: EarlyFire | None) -> None:
    bench = bench_of(spec("left", append_only=(False, True), early=fire))
    assert turn(bench, 1, [row(1, 100, 1)], f=100, g=111) == [(1, 1, None)]
    assert bench.rows_stored() == 1
    assert turn(bench, 2, [row(1, 100, 1)], f=100, g=500) == [(1, 1, None)]
    assert turn(bench, 3, deletions(*[row(1, 100, 1)] * 2), f=100, g=500) == [(-2, 1, None)]
    assert (bench.delta.errors, bench.rows_stored()) == ([], 0)


def test_with_processing_time_matches_are_stored_as_long_as_they_can_be_retracted() -> None:
    bench = bench_of(spec("right", -2, 11, proctime=True, append_only=(False, True)))
    assert turn(bench, 1, [row(1, None, 1)], [row(1, None, 2)], time_us=100) == [(1, 1, 2)]
    assert turn(bench, 2, time_us=110) == []
    assert turn(bench, 3, deletions(row(1, None, 1)), time_us=111) == [(-1, 1, 2), (1, None, 2)]


@pytest.mark.parametrize(("kind", "leaves"), [("semi", [(1, 1, None)]), ("anti", [(1, 2, None)])])
def test_rows_of_the_left_are_emitted_once(kind: str, leaves: list[Any]) -> None:
    bench = bench_of(spec(kind))
    output = turn(bench, 1, [row(1, 10, 1), row(2, 10, 2)], f=0, g=0)
    output += turn(bench, 2, [], [row(1, 5, 3)] * 2, f=0, g=0) + turn(bench, 3, [], [row(1, 6, 4)], f=0, g=0)
    assert bench.delta.rows is None
    assert output + turn(bench, 4, f=30, g=30) == leaves
    assert bench.rows_stored() == 0


def test_equal_rows_in_the_content_and_in_the_step_are_two() -> None:
    bench = bench_of(spec("inner"))
    turn(bench, 1, [row(1, 10, 1)])
    turn(bench, 1, [row(1, 10, 1)])
    assert turn(bench, 2, [], [row(1, 10, 2)]) == [(1, 1, 2), (1, 1, 2)]


def test_an_update_that_changes_nothing_is_not_emitted() -> None:
    plain = spec("left", early=EarlyFire(5, "rowtime"))
    bench = bench_of(replace(plain, outputs=SINGLES))
    turn(bench, 1, [row(1, 100, 1), row(2, 100, 1)], f=100, g=100)
    assert turn(bench, 2, f=105, g=105) == [(1, 1, None), (1, 1, None)]
    assert turn(bench, 3, [], [row(1, 105, 3)], f=105, g=105) == []
    assert turn(bench, 4, [], [row(2, 105, 3), row(2, 106, 3)], f=105, g=105) == [(1, 1, None)]


def test_processing_time_sets_a_timer_for_the_next_padding() -> None:
    bench = bench_of(spec("left", 0, 50, proctime=True, append_only=(False, True)))
    turn(bench, 1, [row(1, None, 1)], time_us=100)
    turn(bench, 2, [row(1, None, 1), row(2, 7, 2)], time_us=120)
    assert bench.delta.timer_us == 151
    assert turn(bench, 3, deletions(row(1, None, 1)), [row(2, 1, 3)], time_us=150) == [(1, 2, 3)]
    assert bench.delta.timer_us == 151
    assert turn(bench, 4, time_us=151) == [(1, 1, None)]
    assert bench.delta.timer_us is None
    turn(bench, 5, deletions(row(1, None, 1)), time_us=152)
    assert [error.code for error in bench.delta.errors] == ["ROW_NOT_FOUND"]


def test_watermarks_of_dates() -> None:
    day = 86_400_000_000
    bench = bench_of(spec("left", 0, day, watermark_types=("date", "date")))
    turn(bench, 1, [row(1, 2 * day, 1), row(1, 2 * day - 1, 2)], f=2, g=2)
    assert bench.outcomes[0].late.total() == 1
    assert turn(bench, 2, f=2, g=3) == []
    assert turn(bench, 3, f=2, g=4) == [(1, 1, None)]


@pytest.mark.parametrize("reach", [0, 40_000 * 10**12])
def test_times_far_from_the_epoch(reach: int) -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    bench = bench_of(spec("left", -reach, reach))
    assert turn(bench, 1, [row(1, first, 1), row(1, last, 2)], f=first, g=first) == []
    assert turn(bench, 2, [], [row(1, first, 3), row(1, last, 4)], f=first, g=first) == [(1, 1, 3), (1, 2, 4)]
    assert turn(bench, 3, [row(2, last, 5)], f=last, g=last) == []
    assert turn(bench, 4, f=last, g=last + reach + 1) == [(1, 5, None)]


def test_lists_and_structs() -> None:
    schema = {**SCHEMA, "x": pl.List(pl.Struct({"a": pl.Int64()}))}
    chosen = spec("full", early=EarlyFire(5, "proctime"), append_only=(False, False))
    bench = JoinBench(chosen, schema, ["k"])
    rows = [{**row(1, 100, number), "x": [{"a": number}]} for number in (2, 1)]
    turn(bench, 1, [rows[0]], time_us=1, f=0, g=0)
    assert turn(bench, 2, time_us=6, f=0, g=0) == [(1, 2, None)]
    assert turn(bench, 3, [], rows, time_us=7, f=0, g=0) == [(-1, 2, None, 0), (1, 2, 1, 0), (1, 2, 2)]
    assert turn(bench, 4, [], deletions(*rows), time_us=8, f=0, g=0) == [(-1, 2, 1, 0), (-1, 2, 2), (1, 2, None, 0)]


def test_state_stays_small_and_an_empty_step_reads_nothing() -> None:
    bench = bench_of(spec("full", -20, 20, early=EarlyFire(30, "proctime")))
    sizes = []
    for number in range(36):
        time = 10 * number
        rows = [row(number % 3, time, number)], [row(number % 2, time, number)]
        turn(bench, number + 1, *rows, time_us=time, f=time - 5, g=time - 5)
        sizes.append((bench.rows_stored(), len(bench.segments.blobs)))
    assert max(rows for rows, _ in sizes) <= 40
    assert max(blobs for _, blobs in sizes[18:]) <= max(blobs for _, blobs in sizes[:18]) + 2
    before = dict(bench.segments.blobs)
    turn(bench, 37, time_us=time, f=time - 5, g=time - 5)
    assert bench.segments.blobs == before
