"""Runs a kernel of time as the engine would: rows are judged, combined in blocks, and stepped under a clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests import tiers
from tests.kernels.bench import COLD, Bench, Given
from tests.model.reference import Change, Row, plain
from tests.model.reference_time import Outcome
from tidegate.core.columns import SEQ, WEIGHT
from tidegate.kernels import make
from tidegate.kernels.api import INFINITE, LATE, NO_TIME, OK, Clock, Delta, WatermarkValue
from tidegate.kernels.state import CACHE, MemorySegments, Store


def quick(examples: int) -> Any:
    return tiers.examples(examples)


@dataclass
class Timed(Bench):
    outcome: Outcome = field(default_factory=Outcome)
    delta: Delta = field(default_factory=Delta)

    def __post_init__(self) -> None:
        self.kernel = make(self.spec)

    def turn(self, changes: Sequence[tuple[Change, int]], clock: Clock, begin: int = 0) -> None:
        """One step; a COLD one is run twice from the same state, and must give the same."""
        again = self._turn(self.segments.copy(), changes, clock) if begin == COLD else None
        if begin == COLD:
            CACHE.clear()
        self.delta = self._turn(self.segments, changes, clock)
        if again is not None:
            same(again, self.delta)
        self._integrate(self.delta)

    def content(self) -> Counter[Row]:
        return self._content()

    def rows_stored(self) -> int:
        return Store(self.segments).stats()[0]

    def _turn(self, segments: MemorySegments, changes: Sequence[tuple[Change, int]], clock: Clock) -> Delta:
        self.outcome = Outcome()
        numbers = sorted({block for _, block in changes})
        blocks = [self.frame([change for change, block in changes if block == number]) for number in numbers]
        done = [self.kernel.combine(0, rows) for rows in (self._let_in(block, clock) for block in blocks) if len(rows)]
        if len(done) > 2:
            done = [self.kernel.combine(0, pl.concat(done[:2])), *done[2:]]
        state = Store(segments)
        delta = self.kernel.step([pl.concat(done) if done else None], clock, state, first=clock.step == 1)
        state.commit()
        if delta.late is not None:
            self.outcome.late.update(counted(delta.late.select(*sorted(self.schema), WEIGHT)))
        return delta

    def _let_in(self, rows: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        verdict = self.kernel.classify(0, rows, clock)
        if verdict is None:
            return rows
        for code, kept in ((LATE, self.outcome.late), (NO_TIME, self.outcome.no_time)):
            kept.update(counted(rows.filter(verdict == code).select(*sorted(self.schema), WEIGHT)))
        return rows.filter(verdict == OK)


def counted(rows: pl.DataFrame) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for *row, weight in rows.rows():
        found[tuple(plain(value) for value in row)] += weight
    return found


def same(one: Delta, other: Delta) -> None:
    """The time to wake may be earlier where it is not known yet that the lowest row of a table is gone."""
    assert (one.timer_us is None, one.evicted, one.errors) == (other.timer_us is None, other.evicted, other.errors)
    for a, b in ((one.rows, other.rows), (one.late, other.late)):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert_frame_equal(a, b, check_row_order=False)


@dataclass
class Moment:
    """A step as it is drawn: what is given, how far the watermarks and the clock move, how the step begins."""

    given: list[Given]
    moves: tuple[int | None, ...]
    passed_us: int
    begin: int


def moments(row: st.SearchStrategy[Mapping[str, Any]], deletes: bool, watermarks: int = 1, most: int = 8) -> Any:
    change = st.builds(Given, row, st.booleans() if deletes else st.just(False), st.integers(0, 50), st.integers(0, 3))
    move = st.none() | st.integers(0, 15)
    return st.lists(
        st.builds(
            Moment, st.lists(change, max_size=7), st.tuples(*[move] * watermarks), st.integers(0, 12), st.integers(0, 1)
        ),
        min_size=1,
        max_size=most,
    )


def clocks(
    drawn: Sequence[Moment], names: Sequence[str] = ("f",), start: int = -8, ends: bool = False, time_us: int = 1_000
) -> list[Clock]:
    """Lines that never go back; with `ends` they are infinite in the last step."""
    found: list[Clock] = []
    watermarks: dict[str, WatermarkValue] = dict.fromkeys(names)
    previous_us = 0
    for number, moment in enumerate(drawn):
        before, watermarks = watermarks, dict(watermarks)
        for name, move in zip(names, moment.moves, strict=True):
            at = watermarks[name]
            if move is not None:
                watermarks[name] = start + move if at is None else int(at) + move
        if ends and number == len(drawn) - 1:
            watermarks = dict.fromkeys(names, INFINITE)
        time_us += moment.passed_us
        found.append(Clock(number + 1, time_us, watermarks, before, previous_us))
        previous_us = time_us
    return found


def given_changes(
    drawn: Sequence[Moment], places: bool = True, any_row: bool = False
) -> list[list[tuple[Change, int]]]:
    """Changes of each step: a delete takes one of the rows that were given and are not deleted (or `any_row`)."""
    present: list[Mapping[str, Any]] = []
    steps = []
    for moment in drawn:
        changes = []
        for place, given in enumerate(moment.given):
            if given.delete and any_row:
                row, weight = given.row, -1
            elif given.delete and present:
                row, weight = present.pop(given.choice % len(present)), -1
            else:
                row, weight = given.row, 1
                present.append(row)
            changes.append((Change(row, weight, place if places else 0), given.block))
        steps.append(changes)
    return steps


__all__ = ["SEQ", "Moment", "Timed", "clocks", "counted", "given_changes", "moments", "quick"]
