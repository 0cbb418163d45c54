"""The interval join: rows of two sides meet if their times lie near each other, and are forgotten when no row can come
that they would meet.

The rows of each side are filed by slices of time, and by key within (see `interval_slices`). A step reads the stored
rows of the keys and slices that its changes reach; what lies below the frontiers is dropped slice by slice. Where rows
leave by themselves when they have met none, those that have not yet are listed by their time, so that a step finds the
ones that are due without looking at others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidegate.core.columns import WEIGHT
from tidegate.ir.joins import ANTI, INNER, SEMI, IntervalJoinSpec
from tidegate.kernels.api import LATE, Clock, Delta, State
from tidegate.kernels.frames import nonempty
from tidegate.kernels.joins.incremental import KINDS, MATCHES
from tidegate.kernels.joins.interval_limits import frontier
from tidegate.kernels.joins.interval_pairs import pairs_of
from tidegate.kernels.joins.interval_side import OUT, Side
from tidegate.kernels.joins.interval_slices import Slices
from tidegate.kernels.joins.interval_step import IntervalStep
from tidegate.kernels.joins.pairs import Meeting, met, padded, settled
from tidegate.kernels.lines import since


class IntervalJoin:
    """The kernel. Output: the columns of `outputs`, and the mark where the spec names one."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        spec = replace(spec, early=None) if spec.kind in (INNER, SEMI, ANTI) else spec
        self.spec, self.kind = spec, KINDS[spec.kind]
        self.sides = (Side(spec, 0), Side(spec, 1))
        self.meeting = Meeting(spec.keys, spec.conditions)
        far = max(abs(spec.lower), abs(spec.upper)) if spec.proctime else 0
        self.slices = Slices(max(spec.upper - spec.lower, far))

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """A row below its own side's frontier is late: those that it should have met may be gone."""
        if self.spec.proctime:
            return None
        line = frontier(self.spec, port, since(clock, self.spec.delayed[port]))
        late = (rows[self.spec.times[port]] < line).fill_null(False)
        return (late.cast(pl.Int8) * LATE).cast(pl.Int8) if late.any() else None

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self.sides[port].combined(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        given = [
            None if rows is None else nonempty(side.arrived(rows, clock, first))
            for side, rows in zip(self.sides, inputs, strict=True)
        ]
        return IntervalStep(self, given, clock, state).delta()

    def content(self, state: State) -> pl.DataFrame | None:
        """The pairs of rows that are kept, and what has left singly of them: of all others nothing is known any more,
        nor of rows that could never meet any."""
        tables = [side.stored(state) for side in self.sides]
        left, right = rows = [None if table is None else nonempty(table.scan()) for table in tables]
        frames = []
        if self.kind.pairs and left is not None and right is not None:
            frames.append(met(self.spec.outputs, left, right, pairs_of(self, left, right)))
        for side, kept, table in zip(self.sides, rows, reversed(tables), strict=True):
            if kept is not None and side.meets is not None:
                leaving = kept.filter(pl.col(MATCHES) > 0 if side.meets else pl.col(OUT))
                frames.append(padded(self.spec.outputs, side.number, leaving, {} if table is None else table.schema))
        found = settled(frames) if frames else None
        return found if found is None or self.spec.correction_id is None else _unmarked(found, self.spec.correction_id)


def _unmarked(rows: pl.DataFrame, mark: str) -> pl.DataFrame:
    return rows.select(pl.exclude(WEIGHT), pl.lit(None, pl.Int64).alias(mark), WEIGHT)
