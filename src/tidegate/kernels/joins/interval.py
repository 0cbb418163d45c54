"""The interval join: rows of two sides match if their times are within an interval, and are evicted when no more rows
can arrive that they would match.

The rows of each side are stored by slices of time, and by key within (`interval_side.Slices`). A step reads the rows of
the keys and slices that its changes reach; rows below the watermarks are evicted slice by slice. Where unmatched rows
are emitted singly, those that are not yet are listed by their time, so that a step finds the rows that are due without
looking at others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tidegate.core.columns import HASH, WEIGHT
from tidegate.ir.joins import ANTI, INNER, SEMI, IntervalJoinSpec
from tidegate.kernels.api import LATE, Clock, Delta, RowError, State
from tidegate.kernels.frames import nonempty
from tidegate.kernels.joins.incremental import KINDS, MATCHES
from tidegate.kernels.joins.interval_match import (
    BagChanges,
    Touched,
    points_of,
    reject_missing,
    spans_of,
    spans_of_changes,
    touch_rows,
    within_reach,
)
from tidegate.kernels.joins.interval_release import (
    Changes,
    CorrectionIds,
    SingleRows,
    correct,
    drop_unpaired_ids,
    next_us,
    release_rows,
    rows_to_store,
    single_rows,
    update_lists,
)
from tidegate.kernels.joins.interval_side import OUT, Side, Slices, limits, numbers, side_watermark
from tidegate.kernels.joins.pairs import JoinCondition, Pairs, consolidate_output, join_pairs, pad_rows, select_pairs
from tidegate.kernels.ranking import Ints
from tidegate.kernels.state.sorting import Indexes, Mask
from tidegate.kernels.watermarks import watermarks_for


def pairs_of(
    join: IntervalJoin, left: pl.DataFrame, right: pl.DataFrame, changed: tuple[Mask, Mask] | None = None
) -> Pairs:
    """The pairs of two sides that match; with `changed`, only pairs in which a row has changed."""
    frames, none = (left, right), Pairs(*np.empty((2, 0), dtype=np.intp))
    if changed is None:
        parts = [none, *_matches(join, frames, 0, None, None)]
    else:
        fresh, same = [np.flatnonzero(mask) for mask in changed], np.flatnonzero(~changed[0])
        parts = [none, *_matches(join, frames, 0, fresh[0], None), *_matches(join, frames, 1, fresh[1], same)]
    return Pairs(*(np.concatenate(indexes) for indexes in zip(*parts, strict=True)))


def _matches(
    join: IntervalJoin,
    frames: tuple[pl.DataFrame, pl.DataFrame],
    one: int,
    rows: Indexes | None,
    others: Indexes | None,
) -> Iterator[Pairs]:
    """The matching pairs of some rows of side `one` and some of the other (None: all)."""
    spans = spans_of(join.sides[one], frames[one], join.slices).at(rows)
    points = points_of(join.sides[1 - one], frames[1 - one], join.slices).at(others)
    for own, other in within_reach(spans, points):
        mine, theirs = own if rows is None else rows[own], other if others is None else others[other]
        pairs = Pairs(mine, theirs) if one == 0 else Pairs(theirs, mine)
        yield select_pairs(pairs, join.condition.holds(*frames, pairs))


_NOTHING: Ints = np.empty(0, dtype=np.int64)


class IntervalStep:
    """`rows` are the changes of each side that can match, `touched` these and all stored rows that they reach, as they
    are after the step. Rows are matched first; then the rows that are due are emitted, touched or not."""

    def __init__(
        self, join: IntervalJoin, changed_rows: Sequence[pl.DataFrame | None], clock: Clock, state: State
    ) -> None:
        self._join, self._state, self._limits = join, state, limits(join.spec, clock)
        sides = list(zip(join.sides, changed_rows, strict=True))
        self._types = [side.types(state) if rows is None else rows.schema for side, rows in sides]
        self._correction_ids = CorrectionIds(
            min((int(numbers(rows, HASH).min()) for rows in changed_rows if rows is not None), default=0)
        )
        self._frames: list[pl.DataFrame] = []
        self._errors: list[RowError] = []
        self._rows = [None if rows is None else self._matchable(side, rows) for side, rows in sides]
        self._reached = [self._reach(side) for side in join.sides]
        self._touched = [self._touch(side) for side in join.sides]

    def delta(self) -> Delta:
        pairs, changes = self._pairs()
        for side, rows, limit in zip(self._join.sides, self._touched, self._limits, strict=True):
            if rows is not None:
                self._update(rows, pairs, changes)
            due = release_rows(side, limit, self._reached[side.number], self._state)
            if due is not None:
                self._emit_single(side, due)
        if self._join.kind.pairs:
            self._emit_pairs(pairs, changes)
        sides = zip(self._join.sides, self._limits, strict=True)
        dropped = sum(side.evict(limit, self._join.slices, self._state) for side, limit in sides)
        return Delta(self._output(), self._errors, timer_us=self._next_timer(), evicted=dropped)

    def _matchable(self, side: Side, rows: pl.DataFrame) -> pl.DataFrame | None:
        """The rows that can match, with their order key. Others are emitted at once, if at all."""
        matchable = pl.Series(side.matchable(rows), dtype=pl.Boolean)
        if not matchable.all():
            self._emit_at_once(side, rows.filter(~matchable))
            rows = rows.filter(matchable)
        order_keys = self._join.slices.keys(numbers(rows, side.time), numbers(rows, HASH))
        return nonempty(rows.with_columns(pl.Series(HASH, order_keys, dtype=pl.Int64)))

    def _emit_at_once(self, side: Side, rows: pl.DataFrame) -> None:
        if side.proctime and not side.append_only:
            # The time of arrival of such a row is not stored, so a retraction cannot be matched with it.
            self._errors += reject_missing(side, rows.filter(pl.col(WEIGHT) < 0))
            rows = rows.filter(pl.col(WEIGHT) > 0)
        self._emit_single(side, rows)

    def _reach(self, side: Side) -> Ints:
        """The order keys of the stored rows of a side that the step needs: those that changes of the other side may
        match, and those that its own changes may update."""
        slices, keys = self._join.slices, [_NOTHING]
        for each, rows, limit in zip(self._join.sides, self._rows, self._limits, strict=True):
            if rows is not None and each is not side:
                codes, low, high = spans_of_changes(each, rows, slices, limit)
                keys.append(slices.cover(codes, low + each.low, high + each.high))
            elif rows is not None and not side.append_only:
                keys.append(slices.cover(*spans_of_changes(side, rows, slices, limit)))
        return np.concatenate(keys)

    def _touch(self, side: Side) -> Touched | None:
        table, fresh, reached = side.find_table(self._state), self._rows[side.number], self._reached[side.number]
        near = None if table is None or not len(reached) else nonempty(table.groups(pl.Series(reached)))
        if near is None:
            if fresh is None:
                return None
            near = fresh.clear()
        changes = np.zeros(near.height, dtype=np.int64)
        if fresh is not None and not side.append_only:
            settling = BagChanges(side, near, fresh, self._join.slices, self._limits[side.number])
            changes, (fresh, errors) = settling.changes, settling.rest()
            self._errors += errors
        return touch_rows(side, near, changes, fresh)

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

    def _update(self, rows: Touched, pairs: Pairs, changes: Changes) -> None:
        """Emits or retracts touched rows singly, updates the lists of waiting rows, and stores them."""
        side, frame, differs, stays = rows.side, rows.frame, rows.changed, rows.weights != 0
        if side.emits_matched is not None:
            singles = single_rows(rows, self._limits[side.number])
            self._emit_turned(rows, singles, pairs, changes)
            update_lists(rows, singles, self._state)
            frame = rows_to_store(rows, singles)
            differs = differs | (singles.matches[0] != singles.matches[1]) | (singles.out[0] != singles.out[1])
            stays = stays & ~(side.ends & (singles.matches[1] > 0))
        known = np.arange(frame.height) < rows.known
        stored = numbers(frame, side.time) >= self._limits[side.number].evict_below
        written, deleted = differs & stays & (known | stored), differs & known & ~stays
        grown = int((written & ~known).sum()) - int(deleted.sum())
        side.write(frame.filter(pl.Series(written)), frame.filter(pl.Series(deleted)), grown, self._state)

    def _emit_turned(self, rows: Touched, singles: SingleRows, pairs: Pairs, changes: Changes) -> None:
        """Emits the rows that have become single, and retracts those that no longer are."""
        before, after = singles.weights
        singly, other = Changes(after - before), self._touched[1 - rows.side.number]
        if self._join.spec.correction_id is not None and other is not None:
            correct((rows, singly), singles.weights, other, (pairs, changes), self._correction_ids)
        indexes, weights, correction_ids = singly.split()
        self._emit_single(rows.side, rows.frame[indexes].with_columns(pl.Series(WEIGHT, weights)), correction_ids)

    def _emit_single(self, side: Side, rows: pl.DataFrame, correction_ids: Ints | None = None) -> None:
        if rows.height:
            frame = pad_rows(self._join.spec.outputs, side.number, rows, self._types[1 - side.number])
            self._frames.append(self._with_ids(frame, correction_ids))

    def _emit_pairs(self, pairs: Pairs, changes: Changes) -> None:
        left, right = self._touched
        if left is not None and right is not None and len(pairs.left):
            indexes, weights, correction_ids = changes.split()
            chosen = Pairs(pairs.left[indexes], pairs.right[indexes])
            frame = join_pairs(self._join.spec.outputs, left.frame, right.frame, chosen)
            self._frames.append(self._with_ids(frame.with_columns(pl.Series(WEIGHT, weights)), correction_ids))

    def _with_ids(self, rows: pl.DataFrame, correction_ids: Ints | None) -> pl.DataFrame:
        name = self._join.spec.correction_id
        if name is None:
            return rows
        ids = pl.lit(None, pl.Int64).alias(name) if correction_ids is None else _nullable(correction_ids).alias(name)
        return rows.select(pl.exclude(WEIGHT), ids, WEIGHT)

    def _output(self) -> pl.DataFrame | None:
        if not self._frames:
            return None
        name = self._join.spec.correction_id
        return consolidate_output(self._frames if name is None else [drop_unpaired_ids(pl.concat(self._frames), name)])

    def _next_timer(self) -> int | None:
        """The processing time at which the next row is due, if rows wait for processing time."""
        spec = self._join.spec
        delay = None if spec.early is None else spec.early.delay
        times = []
        for side in self._join.sides:
            waits = min(side.high + 1, delay or side.high + 1) if spec.proctime else None
            times.append(next_us(side, waits, delay, self._state))
        return min((time for time in times if time is not None), default=None)


def _nullable(correction_ids: Ints) -> pl.Series:
    """Correction ids with NULL for 0."""
    series = pl.Series(correction_ids, dtype=pl.Int64)
    return series.set(series == 0, None)


class IntervalJoin:
    """The kernel. Output: the columns of `outputs`, and the correction id if the spec names a column for it."""

    def __init__(self, spec: IntervalJoinSpec) -> None:
        spec = replace(spec, early=None) if spec.kind in (INNER, SEMI, ANTI) else spec
        self.spec, self.kind = spec, KINDS[spec.kind]
        self.sides = (Side(spec, 0), Side(spec, 1))
        self.condition = JoinCondition(spec.keys, spec.conditions)
        far = max(abs(spec.lower), abs(spec.upper)) if spec.proctime else 0
        self.slices = Slices(max(spec.upper - spec.lower, far))

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """A row below its side's watermark is late: rows that it would match may have been evicted."""
        if self.spec.proctime:
            return None
        watermark = side_watermark(self.spec, port, watermarks_for(clock, self.spec.delayed[port]))
        late = (rows[self.spec.times[port]] < watermark).fill_null(False)
        return (late.cast(pl.Int8) * LATE).cast(pl.Int8) if late.any() else None

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self.sides[port].combine(rows)

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        changed_rows = [
            None if rows is None else nonempty(side.prepare(rows, clock, first))
            for side, rows in zip(self.sides, inputs, strict=True)
        ]
        return IntervalStep(self, changed_rows, clock, state).delta()

    def content(self, state: State) -> pl.DataFrame | None:
        """The pairs of stored rows and the single rows emitted for them. Evicted rows, and rows that could never match,
        are not part of it."""
        tables = [side.find_table(state) for side in self.sides]
        left, right = rows = [None if table is None else nonempty(table.scan()) for table in tables]
        frames = []
        if self.kind.pairs and left is not None and right is not None:
            frames.append(join_pairs(self.spec.outputs, left, right, pairs_of(self, left, right)))
        for side, stored, table in zip(self.sides, rows, reversed(tables), strict=True):
            if stored is not None and side.emits_matched is not None:
                emitted = stored.filter(pl.col(MATCHES) > 0 if side.emits_matched else pl.col(OUT))
                frames.append(pad_rows(self.spec.outputs, side.number, emitted, {} if table is None else table.schema))
        rows_out = consolidate_output(frames) if frames else None
        name = self.spec.correction_id
        return rows_out if rows_out is None or name is None else _without_ids(rows_out, name)


def _without_ids(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.select(pl.exclude(WEIGHT), pl.lit(None, pl.Int64).alias(name), WEIGHT)
