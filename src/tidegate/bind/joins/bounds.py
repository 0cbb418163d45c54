"""Time bounds between two sides, in any spelling: all of

    a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts        b.ts - a.ts <= INTERVAL '1' HOUR AND a.ts <= b.ts

say how far `b.ts - a.ts` may be. Months have no fixed length: they bound the time roughly, and are tested exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.sql import length

DAY_US = 86_400_000_000
SHORTEST, LONGEST = 28 * DAY_US, 31 * DAY_US
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


@dataclass(frozen=True)
class Bound:
    """`right - left op amount`, for two columns. `op` is LT, LTE, GT or GTE."""

    left: str
    right: str
    op: type[exp.Expr]
    amount: CalendarInterval

    @property
    def exact(self) -> bool:
        """True if microseconds say it all."""
        return self.amount.months == 0

    @property
    def lowest(self) -> int | None:
        """No pair is less far apart."""
        if self.op not in (exp.GT, exp.GTE):
            return None
        strict = 1 if self.op is exp.GT and self.exact else 0
        return self.amount.micros + _months(self.amount.months, SHORTEST, LONGEST) + strict

    @property
    def highest(self) -> int | None:
        """No pair is further apart."""
        if self.op not in (exp.LT, exp.LTE):
            return None
        strict = 1 if self.op is exp.LT and self.exact else 0
        return self.amount.micros + _months(self.amount.months, LONGEST, SHORTEST) - strict


def _months(months: int, positive: int, negative: int) -> int:
    return months * (positive if months > 0 else negative)


@dataclass(frozen=True)
class Interval:
    """`lower <= right - left <= upper`, in microseconds."""

    left: str
    right: str
    lower: int
    upper: int


def interval_of(bounds: Iterable[Bound], timed: Mapping[str, object]) -> Interval | None:
    """The first two columns, both of `timed`, that are bounded on both sides."""
    pairs: dict[tuple[str, str], list[Bound]] = {}
    for bound in bounds:
        if bound.left in timed and bound.right in timed:
            pairs.setdefault((bound.left, bound.right), []).append(bound)
    for (left, right), found in pairs.items():
        lows = [each.lowest for each in found if each.lowest is not None]
        highs = [each.highest for each in found if each.highest is not None]
        if lows and highs:
            return Interval(left, right, max(lows), min(highs))
    return None


def bound_of(tree: exp.Expr, left: frozenset[str], right: frozenset[str]) -> Bound | None:
    """What a comparison says of the distance of two columns; None if it is nothing of that kind."""
    if type(tree) not in _MIRRORED:
        return None
    one, other = _linear(tree.this), _linear(tree.expression)
    if one is None or other is None:
        return None
    whole = one.plus(other, -1)
    if sorted(whole.terms.values()) != [-1, 1]:
        return None
    (plus,), (minus,) = ([name for name, sign in whole.terms.items() if sign == way] for way in (1, -1))
    if plus in right and minus in left:
        return Bound(minus, plus, type(tree), CalendarInterval(-whole.amount.micros, -whole.amount.months))
    if plus in left and minus in right:
        return Bound(plus, minus, _MIRRORED[type(tree)], whole.amount)
    return None


@dataclass(frozen=True)
class _Linear:
    """A sum of columns, each with a sign, and an amount of time."""

    terms: Mapping[str, int] = field(default_factory=dict)
    amount: CalendarInterval = field(default_factory=CalendarInterval)

    def plus(self, other: _Linear, sign: int) -> _Linear:
        names = {**self.terms, **other.terms}
        sums = {name: self.terms.get(name, 0) + sign * other.terms.get(name, 0) for name in names}
        amount = CalendarInterval(
            self.amount.micros + sign * other.amount.micros, self.amount.months + sign * other.amount.months
        )
        return _Linear({name: value for name, value in sums.items() if value}, amount)


def _linear(tree: exp.Expr) -> _Linear | None:
    match tree:
        case exp.Paren():
            return _linear(tree.this)
        case exp.Column():
            return _Linear({tree.name: 1})
        case exp.Neg():
            inner = _linear(tree.this)
            return None if inner is None else _Linear().plus(inner, -1)
        case exp.Add() | exp.Sub():
            left, right = _linear(tree.left), _linear(tree.right)
            if left is None or right is None:
                return None
            return left.plus(right, 1 if isinstance(tree, exp.Add) else -1)
        case exp.Interval():
            found = length(tree)
            return None if found is None else _Linear(amount=found)
    return None
