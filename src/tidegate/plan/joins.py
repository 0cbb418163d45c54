"""Joins in the plan. The columns of both sides have different names; `outputs` are the columns of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.durations import render_micros
from tidegate.core.schema import Column, Schema
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, Comparison, EarlyFire, KeyPair
from tidegate.ir.windows import WINDOW_KINDS
from tidegate.plan.leaves import Binary, Node
from tidegate.traits import Traits, keys, state, watermark
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks, WindowEdge


@dataclass(frozen=True)
class Join(Binary):
    """An incremental join: rows match if all `keys` and `conditions` hold. `why` is the reason that it is not a cheaper
    join."""

    kind: str
    left: Node
    right: Node
    keys: tuple[KeyPair, ...]
    conditions: tuple[Comparison, ...]
    outputs: tuple[str, ...]
    why: str = ""

    def __post_init__(self) -> None:
        _check(self)
        left, right = self.left.traits, self.right.traits
        append_only = left.append_only and right.append_only and self.kind in (INNER, SEMI)
        delayed = left.delayed or right.delayed
        watermarks, lost = _key_watermarks(self)
        stored = state.of_join(*self._last_columns())
        self._derive(_schema(self), Traits(_key(self), append_only, watermarks, stored, lost, delayed))

    @property
    def bounds(self) -> JoinBounds | None:
        """By the first equality that bounds both sides, or else one of them; None if none does."""
        found = [bounds for pair in self.keys if (bounds := self._bounds_by(pair)) is not None]
        return max(found, key=lambda each: (None not in each.watermarks, not any(each.late)), default=None)

    def _bounds_by(self, pair: KeyPair) -> JoinBounds | None:
        known = (self.left.traits.watermark(pair.left), self.right.traits.watermark(pair.right))
        settled = [each if each is not None and each.settled else None for each in known]
        late = (False, False)
        if None in settled and all(map(_may_reject, self.inputs, known)):
            late = (settled[0] is None, settled[1] is None)
            settled = list(known)
        left, right = settled
        of_right = left
        if self.kind in (SEMI, ANTI):
            # A row on the right counts once, so it must be known until its equals have arrived too.
            of_right = None if left is None or right is None else watermark.least([left, right])
        return None if right is None and of_right is None else JoinBounds(pair, (right, of_right), late)

    def _last_columns(self) -> tuple[str | None, str | None]:
        bounds = self.bounds
        if bounds is None:
            return None, None
        columns = (bounds.pair.left, bounds.pair.right)
        left, right = (None if each is None else name for name, each in zip(columns, bounds.watermarks, strict=True))
        return left, right


@dataclass(frozen=True)
class JoinBounds:
    """What bounds the state of a join: an equality, and for each side the watermark of the other (None: it has none).
    No more partners come for a row whose column of the equality is below that. `late`: per side, whether the join must
    reject rows below their own watermark for this, because nothing else has."""

    pair: KeyPair
    watermarks: tuple[Watermark | None, Watermark | None]
    late: tuple[bool, bool] = (False, False)


def _may_reject(side: Node, own: Watermark | None) -> bool:
    """True if late rows of a side may be rejected: those of streams, which are never taken back. A row that is in
    several windows counts in those that are open, so its rows in others are not late."""
    if own is None or own.enforced is False:
        return False
    edges = [each for each in watermark.walk([own]) if isinstance(each, WindowEdge)]
    once = not any(WINDOW_KINDS[edge.window.kind].overlapping for edge in edges)
    return own.settled or (side.traits.append_only and once)


@dataclass(frozen=True)
class IntervalJoin(Binary):
    """Rows match if, beside `keys` and `conditions`, `lower <= right time - left time <= upper` microseconds. `times`
    are the time columns, `micros` the same as BIGINT microseconds. `proctime`: the clock is the time of both sides.
    `mark` names an added column that ties an early padding to its correction."""

    kind: str
    left: Node
    right: Node
    keys: tuple[KeyPair, ...]
    conditions: tuple[Comparison, ...]
    outputs: tuple[str, ...]
    times: tuple[str, str]
    micros: tuple[str, str]
    lower: int
    upper: int
    proctime: bool = False
    early: EarlyFire | None = None
    mark: str | None = None

    def __post_init__(self) -> None:
        _check(self)
        left, right = self.left.traits, self.right.traits
        grows = left.append_only and right.append_only and self.early is None
        waits = self.kind not in (INNER, SEMI)
        watermarks, lost = self._derive_watermarks()
        reach = (render_micros(self.upper), render_micros(-self.lower))
        stored = state.of_interval_join(self.times, reach)
        marked = () if self.mark is None else (Column(self.mark, "bigint"),)
        delayed = left.delayed or right.delayed or waits
        traits = Traits(_key(self), grows, watermarks, stored, lost, delayed, self.mark)
        self._derive((*_schema(self), *marked), traits)

    def _derive_watermarks(self) -> tuple[Watermarks, LostWatermarks]:
        """Stored rows may still be emitted, so each time is also held back by the watermark of the other side."""
        if self.proctime:
            return (), ()
        one, other = (
            side.traits.watermark(time) for side, time in zip((self.left, self.right), self.times, strict=True)
        )
        if one is None or other is None:
            return (), ()
        moved = (watermark.shift(other, self.upper), watermark.shift(one, -self.lower))
        derived: list[tuple[str, Watermark]] = []
        for time, own, far in zip(self.times, (one, other), moved, strict=True):
            if time in self.outputs and far is not None and far.type == own.type:
                derived.append((time, watermark.least([own, far])))
        had = [*self.left.traits.watermarks, *self.right.traits.watermarks]
        known = {name for name, _ in derived}
        lost = tuple((name, _NOT_THE_TIME) for name, _ in had if name in self.outputs and name not in known)
        return tuple(derived), lost

    @property
    def watermarks(self) -> tuple[Watermark | None, Watermark | None]:
        """The watermarks of both times."""
        if self.proctime:
            return None, None
        return self.left.traits.watermark(self.times[0]), self.right.traits.watermark(self.times[1])


@dataclass(frozen=True)
class Lookup(Binary):
    """Every row of the left with the row of the right that has its key in that step."""

    kind: str
    left: Node
    right: Node
    keys: tuple[KeyPair, ...]
    conditions: tuple[Comparison, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(self)
        below = self.left.traits
        key = below.key if below.key is not None and set(below.key) <= set(self.outputs) else None
        watermarks = watermark.only(below.watermarks, self.outputs)
        lost = tuple((column, why) for column, why in below.lost if column in self.outputs)
        lost += tuple((column, _LOOKED_UP) for column, _ in self.right.traits.watermarks if column in self.outputs)
        self._derive(_schema(self), Traits(key, True, watermarks, state.of_lookup(), lost, below.delayed))


AnyJoin = Join | IntervalJoin | Lookup

_LOOKED_UP = "a row that is looked up may be of any age"
_NOT_THE_TIME = "it is not the time that the join goes by"
_COMES_LATER = "a row may meet a partner at any later time"
_PADDED = {LEFT: (False, True), RIGHT: (True, False), FULL: (True, True)}


def _check(node: AnyJoin) -> None:
    both = set(node.left.columns) & set(node.right.columns)
    if both:
        raise ValueError(f"both sides of a join have columns {sorted(both)}")
    sides = (node.left, node.right)
    for side, used in zip(sides, compared_columns(node), strict=True):
        side._require(used, side)
    missing = set(node.outputs) - {name for side in sides for name in side.columns}
    if missing:
        raise ValueError(f"a join gives {sorted(missing)}, which neither side has")


def compared_columns(node: AnyJoin) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of both sides that decide whether two rows match."""
    pairs: tuple[KeyPair | Comparison, ...] = (*node.keys, *node.conditions)
    left, right = tuple(pair.left for pair in pairs), tuple(pair.right for pair in pairs)
    if isinstance(node, IntervalJoin):
        return (*left, node.times[0], node.micros[0]), (*right, node.times[1], node.micros[1])
    return left, right


def _schema(node: AnyJoin) -> Schema:
    """The columns of the result; those of a side that may be padded are nullable."""
    missing = _PADDED.get(node.kind, (False, False))
    by_name = {
        column.name: replace(column, nullable=column.nullable or padded)
        for side, padded in zip((node.left, node.right), missing, strict=True)
        for column in side.schema
    }
    return tuple(by_name[name] for name in node.outputs)


def _key(node: Join | IntervalJoin) -> keys.Key:
    """The keys of both sides; that of one side if each of its rows matches at most one of the other."""
    left, right = node.left.traits.key, node.right.traits.key
    if node.kind in (SEMI, ANTI):
        key = left
    elif left is None or right is None:
        key = None
    elif node.kind in (INNER, LEFT) and _at_most_one(right, [pair.right for pair in node.keys]):
        key = left
    elif node.kind in (INNER, RIGHT) and _at_most_one(left, [pair.left for pair in node.keys]):
        key = right
    elif node.kind == FULL and _may_be_null(node, (*left, *right)):
        key = None
    else:
        key = (*left, *right)
    return key if key is not None and set(key) <= set(node.outputs) else None


def _at_most_one(key: Sequence[str], compared: Sequence[str]) -> bool:
    return set(key) <= set(compared)


def _may_be_null(node: Join | IntervalJoin, columns: Sequence[str]) -> bool:
    return any(column.nullable for side in node.inputs for column in side.schema if column.name in columns)


def _key_watermarks(node: Join) -> tuple[Watermarks, LostWatermarks]:
    """The key of an equi-join has the lesser watermark of its two sides, if both have one."""
    left, right = dict(node.left.traits.watermarks), dict(node.right.traits.watermarks)
    derived: dict[str, Watermark] = {}
    for pair in node.keys:
        one, other = left.get(pair.left), right.get(pair.right)
        if one is not None and other is not None and one.type == other.type:
            both = watermark.least([one, other])
            rejects = node.bounds is not None and node.bounds.pair == pair and any(node.bounds.late)
            derived[pair.left] = derived[pair.right] = replace(both, enforced=True) if rejects else both
    watermarks = tuple((name, derived[name]) for name in node.outputs if name in derived)
    lost = tuple((name, _COMES_LATER) for name in (*left, *right) if name in node.outputs and name not in derived)
    return watermarks, lost
