"""One step of an interval join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.kernels.api import Clock, Delta, RowError, State
from tidegate.kernels.frames import nonempty
from tidegate.kernels.joins.interval_limits import limits
from tidegate.kernels.joins.interval_marks import Changes, Marks, correct, in_twos
from tidegate.kernels.joins.interval_pairs import pairs_of
from tidegate.kernels.joins.interval_rows import Settling, Touched, not_found, sought, touched
from tidegate.kernels.joins.interval_side import Side, numbers
from tidegate.kernels.joins.interval_single import Single, keep_lists, next_us, released, single, turned
from tidegate.kernels.joins.pairs import Pairs, met, padded, settled
from tidegate.kernels.ranking import Ints

if TYPE_CHECKING:
    from tidegate.kernels.joins.interval import IntervalJoin

_NOTHING: Ints = np.empty(0, dtype=np.int64)


class IntervalStep:
    """`rows` are the changes of each side that can meet others, `touched` these and all stored rows that they reach, as
    they are after the step. Rows meet first; then those leave that are due, whether they are touched or not."""

    def __init__(self, join: IntervalJoin, given: Sequence[pl.DataFrame | None], clock: Clock, state: State) -> None:
        self._join, self._state, self._limits = join, state, limits(join.spec, clock)
        sides = list(zip(join.sides, given, strict=True))
        self._types = [side.types(state) if rows is None else rows.schema for side, rows in sides]
        self._marks = Marks(min((int(numbers(rows, HASH).min()) for rows in given if rows is not None), default=0))
        self._frames: list[pl.DataFrame] = []
        self._errors: list[RowError] = []
        self._rows = [None if rows is None else self._able(side, rows) for side, rows in sides]
        self._reached = [self._reach(side) for side in join.sides]
        self._touched = [self._touch(side) for side in join.sides]

    def delta(self) -> Delta:
        pairs, changes = self._pairs()
        for side, rows, limit in zip(self._join.sides, self._touched, self._limits, strict=True):
            if rows is not None:
                self._turn(rows, pairs, changes)
            due = released(side, limit, self._reached[side.number], self._state)
            if due is not None:
                self._leave_singly(side, due)
        if self._join.kind.pairs:
            self._leave_in_pairs(pairs, changes)
        sides = zip(self._join.sides, self._limits, strict=True)
        dropped = sum(side.forget(limit, self._join.slices, self._state) for side, limit in sides)
        return Delta(self._settled(), self._errors, timer_us=self._wake(), evicted=dropped)

    def _able(self, side: Side, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Rows that can meet any, filed. Others leave at once, if at all."""
        able = pl.Series(side.able(rows), dtype=pl.Boolean)
        if not able.all():
            self._leave_at_once(side, rows.filter(~able))
            rows = rows.filter(able)
        filed = self._join.slices.filed(numbers(rows, side.time), numbers(rows, HASH))
        return nonempty(rows.with_columns(pl.Series(HASH, filed, dtype=pl.Int64)))

    def _leave_at_once(self, side: Side, rows: pl.DataFrame) -> None:
        if side.proctime and not side.append_only:
            # It is not known at what time such a row came, and so not what is to be taken back.
            self._errors += not_found(side, rows.filter(pl.col(WEIGHT) < 0))
            rows = rows.filter(pl.col(WEIGHT) > 0)
        self._leave_singly(side, rows)

    def _reach(self, side: Side) -> Ints:
        """The numbers of the stored rows of a side that matter: those that changes of the other side may meet, or have
        met if they go, and those that its own changes may fall on."""
        slices, found = self._join.slices, [_NOTHING]
        for each, rows, limit in zip(self._join.sides, self._rows, self._limits, strict=True):
            if rows is not None and each is not side:
                codes, low, high = sought(each, rows, slices, limit)
                found.append(slices.cover(codes, low + each.low, high + each.high))
            elif rows is not None and not side.append_only:
                found.append(slices.cover(*sought(side, rows, slices, limit)))
        return np.concatenate(found)

    def _touch(self, side: Side) -> Touched | None:
        table, fresh, reached = side.stored(self._state), self._rows[side.number], self._reached[side.number]
        near = None if table is None or not len(reached) else nonempty(table.groups(pl.Series(reached)))
        if near is None:
            if fresh is None:
                return None
            near = fresh.clear()
        changes = np.zeros(near.height, dtype=np.int64)
        if fresh is not None and not side.append_only:
            settling = Settling(side, near, fresh, self._join.slices, self._limits[side.number])
            changes, (fresh, errors) = settling.changes, settling.rest()
            self._errors += errors
        return touched(side, near, changes, fresh)

    def _pairs(self) -> tuple[Pairs, Changes]:
        """The pairs of which a row has changed, and the changes of their weights."""
        left, right = self._touched
        if left is None or right is None:
            return Pairs(*[np.empty(0, dtype=np.intp)] * 2), Changes(_NOTHING)
        pairs = pairs_of(self._join, left.frame, right.frame, (left.changed, right.changed))
        left.meet(pairs.left, right, pairs.right)
        right.meet(pairs.right, left, pairs.left)
        before = left.before[pairs.left] * right.before[pairs.right]
        return pairs, Changes(left.weights[pairs.left] * right.weights[pairs.right] - before)

    def _turn(self, rows: Touched, pairs: Pairs, changes: Changes) -> None:
        """What becomes of touched rows: they leave singly or are taken back, wait or do not, and are stored."""
        side, frame, differs, stays = rows.side, rows.frame, rows.changed, rows.weights != 0
        if side.meets is not None:
            found = single(rows, self._limits[side.number])
            self._leave_turned(rows, found, pairs, changes)
            keep_lists(rows, found, self._state)
            frame = turned(rows, found)
            differs = differs | (found.matches[0] != found.matches[1]) | (found.out[0] != found.out[1])
            stays = stays & ~(side.ends & (found.matches[1] > 0))
        known = np.arange(frame.height) < rows.known
        kept = numbers(frame, side.time) >= self._limits[side.number].over
        come, gone = differs & stays & (known | kept), differs & known & ~stays
        grown = int((come & ~known).sum()) - int(gone.sum())
        side.write(frame.filter(pl.Series(come)), frame.filter(pl.Series(gone)), grown, self._state)

    def _leave_turned(self, rows: Touched, found: Single, pairs: Pairs, changes: Changes) -> None:
        """The rows that have begun to leave singly, or do not any more."""
        before, after = found.weights
        singly, other = Changes(after - before), self._touched[1 - rows.side.number]
        if self._join.spec.correction_id is not None and other is not None:
            correct((rows, singly), found.weights, other, (pairs, changes), self._marks)
        places, weights, marks = singly.parted()
        self._leave_singly(rows.side, rows.frame[places].with_columns(pl.Series(WEIGHT, weights)), marks)

    def _leave_singly(self, side: Side, rows: pl.DataFrame, marks: Ints | None = None) -> None:
        if rows.height:
            frame = padded(self._join.spec.outputs, side.number, rows, self._types[1 - side.number])
            self._frames.append(self._marked(frame, marks))

    def _leave_in_pairs(self, pairs: Pairs, changes: Changes) -> None:
        left, right = self._touched
        if left is not None and right is not None and len(pairs.left):
            places, weights, marks = changes.parted()
            chosen = Pairs(pairs.left[places], pairs.right[places])
            frame = met(self._join.spec.outputs, left.frame, right.frame, chosen)
            self._frames.append(self._marked(frame.with_columns(pl.Series(WEIGHT, weights)), marks))

    def _marked(self, rows: pl.DataFrame, marks: Ints | None) -> pl.DataFrame:
        name = self._join.spec.correction_id
        if name is None:
            return rows
        found = pl.lit(None, pl.Int64).alias(name) if marks is None else _shown(marks).alias(name)
        return rows.select(pl.exclude(WEIGHT), found, WEIGHT)

    def _settled(self) -> pl.DataFrame | None:
        if not self._frames:
            return None
        name = self._join.spec.correction_id
        return settled(self._frames if name is None else [in_twos(pl.concat(self._frames), name)])

    def _wake(self) -> int | None:
        """The processing time at which the next row leaves, where that is what rows wait for."""
        spec = self._join.spec
        delay = None if spec.early is None else spec.early.delay
        times = []
        for side in self._join.sides:
            waits = min(side.high + 1, delay or side.high + 1) if spec.proctime else None
            times.append(next_us(side, waits, delay, self._state))
        return min((time for time in times if time is not None), default=None)


def _shown(marks: Ints) -> pl.Series:
    found = pl.Series(marks, dtype=pl.Int64)
    return found.set(found == 0, None)
