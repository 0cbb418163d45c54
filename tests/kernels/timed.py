"""Runs a kernel with time as the engine does: late rows are filtered, the others are combined in blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.kernels.bench import COLD, Bench, BlockChanges, DrawnChange, drawn_change
from tests.model.reference import Change, Row, plain
from tests.model.reference_time import Outcome
from tidegate.core.columns import WEIGHT
from tidegate.kernels import make
from tidegate.kernels.api import INFINITE, LATE, NO_TIME, OK, Clock, Delta, WatermarkValue
from tidegate.kernels.state import CACHE, MemorySegments, Store


@dataclass
class TimedBench(Bench):
    """A bench with a clock. `outcomes` are the rows that the last step rejected, per port; `outcome` is that of port
    0."""

    outcomes: tuple[Outcome, ...] = ()
    delta: Delta = field(default_factory=Delta)

    def __post_init__(self) -> None:
        self.kernel = make(self.spec)

    @property
    def outcome(self) -> Outcome:
        return self.outcomes[0]

    def turn(self, changes: BlockChanges, clock: Clock, begin: int = 0) -> None:
        """Runs one step of the first port."""
        self.turn_all([changes], clock, begin)

    def turn_all(self, inputs: Sequence[BlockChanges], clock: Clock, begin: int = 0) -> None:
        """Runs one step. A COLD one is run twice from the same state, with a warm and with an empty cache; the results
        must be equal."""
        warm = self._turn(self.segments.copy(), inputs, clock) if begin == COLD else None
        if begin == COLD:
            CACHE.clear()
        self.delta = self._turn(self.segments, inputs, clock)
        if warm is not None:
            assert_same(warm, self.delta)
        self._integrate(self.delta)

    def content(self) -> Counter[Row]:
        return self._content()

    def rows_stored(self) -> int:
        return Store(self.segments).stats()[0]

    def _turn(self, segments: MemorySegments, inputs: Sequence[BlockChanges], clock: Clock) -> Delta:
        self.outcomes = tuple(Outcome() for _ in inputs)
        frames = [self.combine(port, self._accept(port, side, clock)) for port, side in enumerate(inputs)]
        state = Store(segments)
        delta = self.kernel.step(frames, clock, state, first=self._is_first(clock, state))
        state.commit()
        if delta.late is not None:
            self.outcome.late.update(count_rows(delta.late.select(*sorted(self.schema), WEIGHT)))
        return delta

    def _is_first(self, clock: Clock, state: Store) -> bool:
        return clock.step == 1

    def _accept(self, port: int, changes: BlockChanges, clock: Clock) -> Iterator[pl.DataFrame]:
        """The blocks without rejected rows, which are added to `outcomes`."""
        for rows in self.blocks(changes):
            verdict = self.kernel.classify(port, rows, clock)
            if verdict is not None:
                outcome = self.outcomes[port]
                for code, rejected in ((LATE, outcome.late), (NO_TIME, outcome.no_time)):
                    rejected.update(count_rows(rows.filter(verdict == code).select(*sorted(self.schema), WEIGHT)))
                rows = rows.filter(verdict == OK)
            if len(rows):
                yield rows


def count_rows(rows: pl.DataFrame) -> Counter[Row]:
    """The total weight of each row; the weight is the last column."""
    counts: Counter[Row] = Counter()
    for *row, weight in rows.rows():
        counts[tuple(plain(value) for value in row)] += weight
    return counts


def assert_same(one: Delta, other: Delta) -> None:
    """Timers may differ: with an empty cache, the deletion of the lowest row of a table may not be known yet."""
    assert (one.timer_us is None, one.evicted, one.errors) == (other.timer_us is None, other.evicted, other.errors)
    for a, b in ((one.rows, other.rows), (one.late, other.late)):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            assert_frame_equal(a, b, check_row_order=False)


@dataclass
class DrawnStep:
    """A step as Hypothesis draws it: its changes, by how much watermarks and the clock advance, and how it starts."""

    changes: list[DrawnChange]
    advances: tuple[int | None, ...]
    elapsed_us: int
    begin: int


def drawn_steps(row: st.SearchStrategy[Mapping[str, Any]], deletes: bool, watermarks: int = 1, most: int = 8) -> Any:
    changes = st.lists(drawn_change(row, deletes), max_size=7)
    advances = st.tuples(*[st.none() | st.integers(0, 15)] * watermarks)
    step = st.builds(DrawnStep, changes, advances, st.integers(0, 12), st.integers(0, 1))
    return st.lists(step, min_size=1, max_size=most)


def clocks(
    steps: Sequence[DrawnStep], names: Sequence[str] = ("f",), start: int = -8, ends: bool = False, time_us: int = 1_000
) -> list[Clock]:
    """The clock of each step. Watermarks never decrease; with `ends` they are infinite in the last step."""
    result: list[Clock] = []
    watermarks: dict[str, WatermarkValue] = dict.fromkeys(names)
    previous_us = 0
    for number, step in enumerate(steps):
        before, watermarks = watermarks, dict(watermarks)
        for name, advance in zip(names, step.advances, strict=True):
            value = watermarks[name]
            if advance is not None:
                watermarks[name] = start + advance if value is None else int(value) + advance
        if ends and number == len(steps) - 1:
            watermarks = dict.fromkeys(names, INFINITE)
        time_us += step.elapsed_us
        result.append(Clock(number + 1, time_us, watermarks, before, previous_us))
        previous_us = time_us
    return result


def changes_of(
    steps: Sequence[DrawnStep], positions: bool = True, any_row: bool = False
) -> list[list[tuple[Change, int]]]:
    """The changes of each step. A delete removes one of the current rows, or with `any_row` the row that was drawn."""
    present: list[Mapping[str, Any]] = []
    result = []
    for step in steps:
        changes = []
        for position, each in enumerate(step.changes):
            if each.delete and any_row:
                row, weight = each.row, -1
            elif each.delete and present:
                row, weight = present.pop(each.choice % len(present)), -1
            else:
                row, weight = each.row, 1
                present.append(row)
            changes.append((Change(row, weight, position if positions else 0), each.block))
        result.append(changes)
    return result
