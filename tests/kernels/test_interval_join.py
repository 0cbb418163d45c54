"""Interval joins against the naive model: pairs, paddings, early ones, and what is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bench import COLD
from tests.kernels.timed import Moment, Timed, clocks, counted, given_changes, moments, quick
from tests.model.reference import Change, Row, plain
from tests.model.reference_intervals import Intervals
from tests.model.reference_time import Outcome
from tidegate.core.columns import WEIGHT
from tidegate.ir.joins import Comparison, EarlyFire, IntervalJoinSpec, KeyPair, OutputColumn
from tidegate.kernels.api import INFINITE, LATE, OK, Clock, Delta
from tidegate.kernels.joins import interval_side
from tidegate.kernels.state import MemorySegments, Store

SCHEMA = {"k": pl.Int64(), "t": pl.Int64(), "v": pl.Int64(), "x": pl.Float64()}
COLUMNS = tuple(SCHEMA)
PAIRS = tuple(OutputColumn(f"{'lr'[side]}_{name}", side, name) for side in (0, 1) for name in COLUMNS)
SINGLES = tuple(taken for taken in PAIRS if taken.side == 0)
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
OUTER = ["left", "right", "full"]
MARK = "m"
Changes = Sequence[tuple[Change, int]]


@pytest.fixture(scope="module", autouse=True)
def tiny_slices(tiny_chunks: None) -> Iterator[None]:
    """Times of a few microseconds lie in several slices, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_side, "SHORTEST_US", 2)
        yield


@dataclass
class Joined(Timed):
    """Two sides with the same columns; changes of a step are one list for each."""

    outcomes: tuple[Outcome, Outcome] = field(default_factory=lambda: (Outcome(), Outcome()))

    def _turn(self, segments: MemorySegments, changes: Any, clock: Clock) -> Delta:
        self.outcomes = (Outcome(), Outcome())
        inputs = [self._blocks(port, side, clock) for port, side in enumerate(changes)]
        state = Store(segments)
        delta = self.kernel.step(inputs, clock, state, first=state.fresh)
        state.commit()
        return delta

    def _blocks(self, port: int, changes: Changes, clock: Clock) -> pl.DataFrame | None:
        numbers = sorted({block for _, block in changes})
        blocks = [self.frame([change for change, block in changes if block == number]) for number in numbers]
        done = [self.kernel.combine(port, self._admitted(port, block, clock)) for block in blocks]
        if len(done) > 2:
            done = [self.kernel.combine(port, pl.concat(done[:2])), *done[2:]]
        return pl.concat(done) if done else None

    def _admitted(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        verdict = self.kernel.classify(port, rows, clock)
        if verdict is None:
            return rows
        late = rows.filter(verdict == LATE).select(*sorted(self.schema), WEIGHT)
        self.outcomes[port].late.update(counted(late))
        return rows.filter(verdict == OK)

    def _integrate(self, delta: Delta) -> None:
        """Rows add up whatever their marks; without them, no row both comes and goes."""
        rows = delta.rows
        super()._integrate(delta if rows is None else replace(delta, rows=rows.drop(MARK, strict=False)))

    def content(self) -> Counter[Row]:
        found = self.kernel.content(Store(self.segments))
        rows = pl.DataFrame() if found is None else found.drop(MARK, strict=False)
        return Counter() if found is None else counted(rows)

    def corrections(self) -> Counter[tuple[Row, Row]]:
        """The rows of the last step that have the same mark: the one that goes, the one that comes."""
        found: Counter[tuple[Row, Row]] = Counter()
        rows = self.delta.rows
        if rows is None or MARK not in rows.columns:
            return found
        marked = rows.filter(pl.col(MARK).is_not_null())
        for (mark,), both in marked.group_by(MARK):
            assert both.height == 2 and both[WEIGHT].sum() == 0, (mark, both)
            gone, come = (
                tuple(plain(value) for value in row) for row in both.sort(WEIGHT).drop(MARK, WEIGHT).iter_rows()
            )
            found[gone, come] += both[WEIGHT].max()  # type: ignore[assignment, operator]
        return found


def joined(spec: IntervalJoinSpec, modulus: int = 0) -> Joined:
    return Joined(spec, SCHEMA, [pair.left for pair in spec.keys], modulus=modulus)


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
"""Rows that often meet none at first."""
KEYS = st.sampled_from([(), (KeyPair("k", "k"),), (KeyPair("k", "k"),), (KeyPair("k", "k", True),)])
CONDITIONS = st.sampled_from(
    [*[()] * 6, *((Comparison("x", op, "x"),) for op in ("=", "<>", "<", ">=", "<=>")), (Comparison("v", "<=", "v"),)]
)
BOUNDS = st.tuples(st.integers(-12, 8), st.integers(-1, 14)).map(lambda pair: (pair[0], pair[0] + pair[1]))
WIDE = st.tuples(st.integers(-10, 0), st.integers(6, 20))
FLAGS = st.tuples(st.booleans(), st.booleans())


def spec(kind: str, lower: int = -10, upper: int = 10, **others: Any) -> IntervalJoinSpec:
    plain = {"keys": (KeyPair("k", "k"),), "watermarks": ("f", "g"), "append_only": (True, True)}
    fields: Any = {**plain, "correction_id": MARK if others.get("early") else None, **others}
    outputs = SINGLES if kind in ("semi", "anti") else PAIRS
    return IntervalJoinSpec(
        kind, outputs=outputs, columns=(COLUMNS, COLUMNS), times=("t", "t"), lower=lower, upper=upper, **fields
    )


def specs(kinds: Sequence[str], bounds: Any = BOUNDS, **others: Any) -> st.SearchStrategy[IntervalJoinSpec]:
    drawn = {"keys": KEYS, "conditions": CONDITIONS, "delayed": FLAGS, "append_only": FLAGS, **others}
    fields = st.fixed_dictionaries(drawn)
    return st.builds(lambda kind, ends, fields: spec(kind, *ends, **fields), st.sampled_from(kinds), bounds, fields)


def drawn_sides(spec: IntervalJoinSpec, draw: Any, row: Any) -> list[list[Moment]]:
    """Steps of both sides, of which one may begin later than the other: the first one's clock counts, and its
    watermarks move at one of several paces."""
    empty, sides = Moment([], (3, 3), 3, 0), []
    for append in spec.append_only:
        parts = [draw(moments(row, deletes=not append, watermarks=2, most=most)) for most in (3, 4)]
        sides.append([*[empty] * draw(st.sampled_from([0, 0, 1, 2, 3])), *parts[0], *parts[1]])
    pace, length = draw(st.sampled_from([1, 3, 6])), max(len(side) for side in sides)
    left, right = ([*side, *[empty] * (length - len(side))] for side in sides)
    return [[replace(each, moves=tuple(move and move // pace for move in each.moves)) for each in left], right]


def play(spec: IntervalJoinSpec, draw: Any, ends: bool, modulus: int, row: Any = ROW) -> None:
    """Both beside each other, step by step."""
    bench, model, sides = joined(spec, modulus), Intervals(spec), drawn_sides(spec, draw, row)
    changes = zip(*(given_changes(side, places=False) for side in sides), strict=True)
    for moment, clock, both in zip(sides[0], clocks(sides[0], "fg", ends=ends), changes, strict=True):
        told = model.step(clock, [[change for change, _ in side] for side in both])
        bench.turn(both, clock, moment.begin)
        check(bench, model, clock)
        assert bench.outcomes == told.late
        assert len(bench.delta.errors) == told.missing
        if spec.correction_id is not None:
            assert bench.corrections() == told.corrections


def check(bench: Joined, model: Intervals, clock: Clock) -> None:
    spec = bench.spec
    assert isinstance(spec, IntervalJoinSpec)
    assert bench.output == model.content()
    assert not bench.content() - bench.output
    if spec.early is None and all(spec.append_only) and bench.delta.rows is not None:
        assert (bench.delta.rows[WEIGHT] > 0).all(), "nothing is taken back"
    wake, expected = bench.delta.timer_us, model.next_us()
    assert (wake is None) == (expected is None)
    assert wake is None or expected is None or clock.time_us < wake <= expected
    if not spec.proctime and set(clock.watermarks.values()) == {INFINITE}:
        assert bench.rows_stored() == 0


MODULUS = st.sampled_from([0, 0, 3])


@quick(45)
@given(st.data(), specs(KINDS), st.booleans(), MODULUS)
def test_rows_of_two_sides_meet_in_an_interval(data: Any, spec: Any, ends: bool, modulus: int) -> None:
    play(spec, data.draw, ends, modulus)


EARLY = st.builds(EarlyFire, st.sampled_from([1, 1, 2, 5, 12]), st.sampled_from(["rowtime", "proctime"]))


@quick(45)
@given(st.data(), specs(OUTER, WIDE, early=EARLY), st.booleans(), MODULUS, st.sampled_from([ROW, SPARSE, SPARSE]))
def test_paddings_that_come_early_are_corrected(data: Any, spec: Any, ends: bool, modulus: int, row: Any) -> None:
    play(spec, data.draw, ends, modulus, row)


ONE_ZERO = ROW.map(lambda row: {**row, "x": None if row["x"] is None else row["x"] + 0.0})
"""Rows that are not found are shown as they came: of equal ones it may be any."""
BY_THE_CLOCK = st.none() | st.builds(EarlyFire, st.sampled_from([1, 4, 9]), st.just("proctime"))


@quick(35)
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
    bench: Joined, step: int, left: Sequence[Any] = (), right: Sequence[Any] = (), time_us: int = 0, **watermarks: Any
) -> list[tuple[Any, ...]]:
    """One step; what comes out, as (weight, left value, right value), and the number of the mark if there is one."""
    sides: Any = [[(each if isinstance(each, Change) else Change(each, 1), 0) for each in s] for s in (left, right)]
    bench.turn(sides, Clock(step, time_us, watermarks, {}, 0), COLD)
    if bench.delta.rows is None:
        return []
    rows = list(bench.delta.rows.iter_rows(named=True))
    marks = sorted({row[MARK] for row in rows if row.get(MARK)})
    found = [(row[WEIGHT], row.get("l_v"), row.get("r_v"), row.get(MARK)) for row in rows]
    return sorted(((*row[:3], marks.index(row[3])) if row[3] else row[:3] for row in found), key=str)


def early(kind: str, delay: int, mode: str, **others: Any) -> Joined:
    return joined(spec(kind, early=EarlyFire(delay, mode), **others))


def test_a_padding_that_came_early_is_taken_back_by_the_first_match() -> None:
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


def test_inner_joins_do_not_wait_for_anything() -> None:
    bench = joined(spec("inner", early=EarlyFire(1, "rowtime")))
    assert turn(bench, 1, [row(1, 100, 7)], f=0, g=0) == []
    assert turn(bench, 2, [], [row(1, 90, 8), row(1, 89, 9), row(1, 110, 5)], f=90, g=89) == [(1, 7, 5), (1, 7, 8)]
    assert turn(bench, 3, f=110, g=111) == []


def gone(*rows: dict[str, Any]) -> list[Change]:
    return [Change(row, -1) for row in rows]


def test_a_padding_comes_back_with_the_last_match_gone() -> None:
    bench = early("left", 5, "rowtime", append_only=(False, False))
    turn(bench, 1, [row(1, 100, 7)] * 2, [row(1, 107, 1), row(1, 108, 2)], f=90, g=90)
    assert turn(bench, 2, f=105, g=105) == []
    assert turn(bench, 3, [], gone(row(1, 107, 1)), f=105, g=105) == [(-2, 7, 1)]
    assert turn(bench, 4, [], gone(row(1, 108, 2)), f=105, g=105) == [(-2, 7, 2, 0), (2, 7, None, 0)]
    assert turn(bench, 5, [], [row(1, 110, 3)] * 3, f=105, g=105) == [(-2, 7, None, 0), (2, 7, 3, 0), (4, 7, 3)]


def test_a_padding_waits_until_no_match_can_come() -> None:
    bench = joined(spec("full", -3, 5))
    assert turn(bench, 1, [row(1, 100, 1)], [row(2, 100, 2)], f=100, g=100) == []
    assert turn(bench, 2, f=103, g=105) == []
    assert turn(bench, 3, f=104, g=105) == [(1, None, 2)]
    assert turn(bench, 4, [], [row(1, 105, 3)], f=104, g=105) == [(1, 1, 3)]
    assert turn(bench, 5, f=104, g=106) == []
    assert turn(bench, 6, f=INFINITE, g=INFINITE) == []


def test_rows_that_can_never_meet_any_are_padded_at_once_and_not_kept() -> None:
    bench = joined(spec("full", append_only=(False, False)))
    unable = [row(None, 5, 1), row(1, None, 2)], [row(None, 5, 3)]
    assert turn(bench, 1, *unable) == [(1, 1, None), (1, 2, None), (1, None, 3)]
    assert bench.rows_stored() == 0
    assert turn(bench, 2, gone(row(1, None, 2))) == [(-1, 2, None)]
    bench = joined(spec("anti", 5, 4))
    assert turn(bench, 1, [row(1, 5, 1)], [row(1, 5, 2)]) == [(1, 1, None)]
    assert bench.rows_stored() == 0


def test_a_row_on_its_frontier_is_kept_and_one_below_is_late() -> None:
    bench = joined(spec("inner", append_only=(False, True)))
    turn(bench, 1, [row(1, 9, 1), row(1, 10, 2)], [row(1, 10, 3)], f=10, g=5)
    assert bench.outcomes[0].late.total() == 1
    assert turn(bench, 2, gone(row(1, 10, 2)), f=10, g=5) == [(-1, 2, 3)]
    turn(bench, 3, gone(row(1, 10, 2)), f=11, g=5)
    assert bench.outcomes[0].late.total() == -1


@pytest.mark.parametrize("fire", [None, EarlyFire(5, "proctime")])
def test_what_is_padded_can_be_taken_back_while_that_is_not_late(fire: EarlyFire | None) -> None:
    bench = joined(spec("left", append_only=(False, True), early=fire))
    assert turn(bench, 1, [row(1, 100, 1)], f=100, g=111) == [(1, 1, None)]
    assert bench.rows_stored() == 1
    assert turn(bench, 2, [row(1, 100, 1)], f=100, g=500) == [(1, 1, None)]
    assert turn(bench, 3, gone(*[row(1, 100, 1)] * 2), f=100, g=500) == [(-2, 1, None)]
    assert (bench.delta.errors, bench.rows_stored()) == ([], 0)


def test_by_the_clock_what_a_row_has_met_is_kept_for_as_long_as_it_can_be_taken_back() -> None:
    bench = joined(spec("right", -2, 11, proctime=True, append_only=(False, True)))
    assert turn(bench, 1, [row(1, None, 1)], [row(1, None, 2)], time_us=100) == [(1, 1, 2)]
    assert turn(bench, 2, time_us=110) == []
    assert turn(bench, 3, gone(row(1, None, 1)), time_us=111) == [(-1, 1, 2), (1, None, 2)]


@pytest.mark.parametrize(("kind", "leaves"), [("semi", [(1, 1, None)]), ("anti", [(1, 2, None)])])
def test_rows_of_the_left_leave_once(kind: str, leaves: list[Any]) -> None:
    bench = joined(spec(kind))
    found = turn(bench, 1, [row(1, 10, 1), row(2, 10, 2)], f=0, g=0)
    found += turn(bench, 2, [], [row(1, 5, 3)] * 2, f=0, g=0) + turn(bench, 3, [], [row(1, 6, 4)], f=0, g=0)
    assert bench.delta.rows is None
    assert found + turn(bench, 4, f=30, g=30) == leaves
    assert bench.rows_stored() == 0


def test_equal_rows_that_come_in_the_run_of_the_content_and_in_the_step_are_two() -> None:
    bench = joined(spec("inner"))
    turn(bench, 1, [row(1, 10, 1)])
    turn(bench, 1, [row(1, 10, 1)])
    assert turn(bench, 2, [], [row(1, 10, 2)]) == [(1, 1, 2), (1, 1, 2)]


def test_an_update_that_changes_nothing_does_not_come_out() -> None:
    plain = spec("left", early=EarlyFire(5, "rowtime"))
    bench = joined(replace(plain, outputs=SINGLES))
    turn(bench, 1, [row(1, 100, 1), row(2, 100, 1)], f=100, g=100)
    assert turn(bench, 2, f=105, g=105) == [(1, 1, None), (1, 1, None)]
    assert turn(bench, 3, [], [row(1, 105, 3)], f=105, g=105) == []
    assert turn(bench, 4, [], [row(2, 105, 3), row(2, 106, 3)], f=105, g=105) == [(1, 1, None)]


def test_processing_time_wakes_for_the_next_padding() -> None:
    bench = joined(spec("left", 0, 50, proctime=True, append_only=(False, True)))
    turn(bench, 1, [row(1, None, 1)], time_us=100)
    turn(bench, 2, [row(1, None, 1), row(2, 7, 2)], time_us=120)
    assert bench.delta.timer_us == 151
    assert turn(bench, 3, gone(row(1, None, 1)), [row(2, 1, 3)], time_us=150) == [(1, 2, 3)]
    assert bench.delta.timer_us == 151
    assert turn(bench, 4, time_us=151) == [(1, 1, None)]
    assert bench.delta.timer_us is None
    turn(bench, 5, gone(row(1, None, 1)), time_us=152)
    assert [error.code for error in bench.delta.errors] == ["ROW_NOT_FOUND"]


def test_lines_of_dates() -> None:
    day = 86_400_000_000
    bench = joined(spec("left", 0, day, watermark_types=("date", "date")))
    turn(bench, 1, [row(1, 2 * day, 1), row(1, 2 * day - 1, 2)], f=2, g=2)
    assert bench.outcomes[0].late.total() == 1
    assert turn(bench, 2, f=2, g=3) == []
    assert turn(bench, 3, f=2, g=4) == [(1, 1, None)]


@pytest.mark.parametrize("reach", [0, 40_000 * 10**12])
def test_times_far_from_the_epoch(reach: int) -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    bench = joined(spec("left", -reach, reach))
    assert turn(bench, 1, [row(1, first, 1), row(1, last, 2)], f=first, g=first) == []
    assert turn(bench, 2, [], [row(1, first, 3), row(1, last, 4)], f=first, g=first) == [(1, 1, 3), (1, 2, 4)]
    assert turn(bench, 3, [row(2, last, 5)], f=last, g=last) == []
    assert turn(bench, 4, f=last, g=last + reach + 1) == [(1, 5, None)]


def test_lists_and_structs() -> None:
    schema = {**SCHEMA, "x": pl.List(pl.Struct({"a": pl.Int64()}))}
    chosen = spec("full", early=EarlyFire(5, "proctime"), append_only=(False, False))
    bench = Joined(chosen, schema, ["k"])
    rows = [{**row(1, 100, number), "x": [{"a": number}]} for number in (2, 1)]
    turn(bench, 1, [rows[0]], time_us=1, f=0, g=0)
    assert turn(bench, 2, time_us=6, f=0, g=0) == [(1, 2, None)]
    assert turn(bench, 3, [], rows, time_us=7, f=0, g=0) == [(-1, 2, None, 0), (1, 2, 1, 0), (1, 2, 2)]
    assert turn(bench, 4, [], gone(*rows), time_us=8, f=0, g=0) == [(-1, 2, 1, 0), (-1, 2, 2), (1, 2, None, 0)]


def test_state_stays_small_and_a_quiet_step_costs_nothing() -> None:
    bench = joined(spec("full", -20, 20, early=EarlyFire(30, "proctime")))
    sizes = []
    for number in range(60):
        time = 10 * number
        rows = [row(number % 3, time, number)], [row(number % 2, time, number)]
        turn(bench, number + 1, *rows, time_us=time, f=time - 5, g=time - 5)
        sizes.append((bench.rows_stored(), len(bench.segments.blobs)))
    assert max(rows for rows, _ in sizes) <= 40
    assert max(blobs for _, blobs in sizes[30:]) <= max(blobs for _, blobs in sizes[:30]) + 2
    before = dict(bench.segments.blobs)
    turn(bench, 61, time_us=time, f=time - 5, g=time - 5)
    assert bench.segments.blobs == before
