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

from tests.kernels.timed import Moment, Timed, clocks, counted, given_changes, moments, quick
from tidegate.kernels.api import INFINITE, LATE, OK, WEIGHT, Clock, Delta
from tidegate.kernels.join_specs import Comparison, EarlyFire, IntervalSpec, KeyPair, Taken
from tidegate.kernels.joins import interval_slices
from tidegate.kernels.state import MemorySegments, Store
from tidegate.testing.reference import Change, Row, plain
from tidegate.testing.reference_intervals import Intervals
from tidegate.testing.reference_time import Outcome

SCHEMA = {"k": pl.Int64(), "t": pl.Int64(), "v": pl.Int64(), "x": pl.Float64()}
COLUMNS = tuple(SCHEMA)
PAIRS = tuple(Taken(f"{'lr'[side]}_{name}", side, name) for side in (0, 1) for name in COLUMNS)
SINGLES = tuple(taken for taken in PAIRS if taken.side == 0)
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
OUTER = ["left", "right", "full"]
MARK = "m"
Changes = Sequence[tuple[Change, int]]


@pytest.fixture(scope="module", autouse=True)
def tiny_slices(tiny_chunks: None) -> Iterator[None]:
    """Times of a few microseconds lie in several slices, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_slices, "SHORTEST_US", 2)
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
        verdict = self.kernel.judge(port, rows, clock)
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


def joined(spec: IntervalSpec, modulus: int = 0) -> Joined:
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


def specs(
    kinds: Sequence[str], early: Any = st.none(), proctime: Any = st.just(False), bounds: Any = BOUNDS
) -> st.SearchStrategy[Any]:
    def made(kind: str, keys: Any, conditions: Any, bounds: Any, delayed: Any, append: Any, fire: Any, proc: bool) -> Any:
        outputs = SINGLES if kind in ("semi", "anti") else PAIRS
        return IntervalSpec(
            kind,
            keys,
            outputs,
            (COLUMNS, COLUMNS),
            ("t", "t"),
            *bounds,
            lines=("f", "g"),
            delayed=delayed,
            conditions=conditions,
            append_only=append,
            proctime=proc,
            early=fire,
            mark=None if fire is None else MARK,
        )

    return st.builds(made, st.sampled_from(kinds), KEYS, CONDITIONS, bounds, FLAGS, FLAGS, early, proctime)


def drawn_sides(spec: IntervalSpec, draw: Any, row: Any) -> list[list[Moment]]:
    """Steps of both sides, of which one may begin later than the other: the first one's clock counts, and its lines
    move at one of several paces."""
    empty, sides = Moment([], (3, 3), 3, 0), []
    for append in spec.append_only:
        parts = [draw(moments(row, deletes=not append, lines=2, most=most)) for most in (3, 4)]
        sides.append([*[empty] * draw(st.sampled_from([0, 0, 1, 2, 3])), *parts[0], *parts[1]])
    pace, length = draw(st.sampled_from([1, 3, 6])), max(len(side) for side in sides)
    left, right = ([*side, *[empty] * (length - len(side))] for side in sides)
    return [[replace(each, moves=tuple(move and move // pace for move in each.moves)) for each in left], right]


def play(spec: IntervalSpec, draw: Any, ends: bool, modulus: int, row: Any = ROW) -> None:
    """Both beside each other, step by step."""
    bench, model, sides = joined(spec, modulus), Intervals(spec), drawn_sides(spec, draw, row)
    changes = zip(*(given_changes(side, places=False) for side in sides), strict=True)
    for moment, clock, given in zip(sides[0], clocks(sides[0], "fg", ends=ends), changes, strict=True):
        told = model.step(clock, [[change for change, _ in side] for side in given])
        bench.turn(given, clock, moment.begin)
        check(bench, model, clock)
        assert bench.outcomes == told.late
        assert len(bench.delta.errors) == told.missing
        if spec.mark is not None:
            assert bench.corrections() == told.corrections


def check(bench: Joined, model: Intervals, clock: Clock) -> None:
    spec = bench.spec
    assert isinstance(spec, IntervalSpec)
    assert bench.output == model.content()
    assert not bench.content() - bench.output
    if spec.early is None and all(spec.append_only) and bench.delta.rows is not None:
        assert (bench.delta.rows[WEIGHT] > 0).all(), "nothing is taken back"
    wake, expected = bench.delta.wake_us, model.next_us()
    assert (wake is None) == (expected is None)
    assert wake is None or expected is None or clock.time_us < wake <= expected
    if not spec.proctime and set(clock.lines.values()) == {INFINITE}:
        assert bench.rows_stored() == 0


MODULUS = st.sampled_from([0, 0, 3])


@quick(90)
@given(st.data(), specs(KINDS), st.booleans(), MODULUS)
def test_rows_of_two_sides_meet_in_an_interval(data: Any, spec: Any, ends: bool, modulus: int) -> None:
    play(spec, data.draw, ends, modulus)


EARLY = st.builds(EarlyFire, st.sampled_from([1, 1, 2, 5, 12]), st.sampled_from(["rowtime", "proctime"]))


@quick(90)
@given(st.data(), specs(OUTER, EARLY, bounds=WIDE), st.booleans(), MODULUS, st.sampled_from([ROW, SPARSE, SPARSE]))
def test_paddings_that_come_early_are_corrected(data: Any, spec: Any, ends: bool, modulus: int, row: Any) -> None:
    play(spec, data.draw, ends, modulus, row)


@quick(60)
@given(
    st.data(),
    specs(KINDS, st.none() | st.builds(EarlyFire, st.sampled_from([1, 4, 9]), st.just("proctime")), st.just(True)),
    MODULUS,
)
def test_processing_time(data: Any, spec: Any, modulus: int) -> None:
    if spec.kind not in OUTER:
        spec = replace(spec, early=None, mark=None)
    play(spec, data.draw, False, modulus)
