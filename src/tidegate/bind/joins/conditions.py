"""The condition of ON, split: equalities and comparisons between the sides, time bounds, and conditions on one side.

A time bound limits the difference of two times in any spelling: all of

    a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts        b.ts - a.ts <= INTERVAL '1' HOUR AND a.ts <= b.ts

bound `b.ts - a.ts`. Months have no fixed length: they bound the time roughly, and are tested exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.bind.expressions import split_and
from tidegate.core.durations import CalendarInterval
from tidegate.sql import length

EQUALITIES = (exp.EQ, exp.NullSafeEQ)
OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
DAY_US = 86_400_000_000
SHORTEST, LONGEST = 28 * DAY_US, 31 * DAY_US
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


@dataclass(frozen=True)
class TimeBound:
    """`right - left op amount`, for two columns. `op` is LT, LTE, GT or GTE."""

    left: str
    right: str
    op: type[exp.Expr]
    amount: CalendarInterval

    @property
    def exact(self) -> bool:
        """True if the bound is a number of microseconds."""
        return self.amount.months == 0

    @property
    def lowest(self) -> int | None:
        """The least difference in microseconds; None for an upper bound."""
        if self.op not in (exp.GT, exp.GTE):
            return None
        strict = 1 if self.op is exp.GT and self.exact else 0
        return self.amount.micros + _months(self.amount.months, SHORTEST, LONGEST) + strict

    @property
    def highest(self) -> int | None:
        """The greatest difference in microseconds; None for a lower bound."""
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


def interval_of(bounds: Iterable[TimeBound], timed: Mapping[str, object]) -> Interval | None:
    """The interval of the first two columns of `timed` that are bounded on both sides; None without such columns."""
    pairs: dict[tuple[str, str], list[TimeBound]] = {}
    for bound in bounds:
        if bound.left in timed and bound.right in timed:
            pairs.setdefault((bound.left, bound.right), []).append(bound)
    for (left, right), both in pairs.items():
        lows = [each.lowest for each in both if each.lowest is not None]
        highs = [each.highest for each in both if each.highest is not None]
        if lows and highs:
            return Interval(left, right, max(lows), min(highs))
    return None


def bound_of(tree: exp.Expr, left: frozenset[str], right: frozenset[str]) -> TimeBound | None:
    """The bound that a comparison puts on the difference of two columns; None if it puts none."""
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
        return TimeBound(minus, plus, type(tree), CalendarInterval(-whole.amount.micros, -whole.amount.months))
    if plus in left and minus in right:
        return TimeBound(plus, minus, _MIRRORED[type(tree)], whole.amount)
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
            amount = length(tree)
            return None if amount is None else _Linear(amount=amount)
    return None


@dataclass(frozen=True)
class Compared:
    """`left op right`, one expression per side; `tree` is the condition as written."""

    left: exp.Expr
    op: str
    right: exp.Expr
    tree: exp.Expr

    @property
    def equality(self) -> bool:
        return self.op in ("=", "<=>")


@dataclass
class Conditions:
    """The parts of ON. `left` and `right` read one side; `mixed` cannot be split. A time bound is in `bounds`, together
    with the comparison as `Compared` (None if it cannot be split)."""

    compared: list[Compared] = field(default_factory=list)
    bounds: list[tuple[TimeBound, Compared | None, exp.Expr]] = field(default_factory=list)
    left: list[exp.Expr] = field(default_factory=list)
    right: list[exp.Expr] = field(default_factory=list)
    mixed: list[exp.Expr] = field(default_factory=list)

    @property
    def equalities(self) -> list[Compared]:
        return [each for each in self.compared if each.equality]

    def compare_bounds(self) -> None:
        """Treat the time bounds as ordinary comparisons."""
        for _, compared, tree in self.bounds:
            if compared is None:
                self.mixed.append(tree)
            else:
                self.compared.append(compared)
        self.bounds = []


def split_condition(trees: Iterable[exp.Expr], left: frozenset[str], right: frozenset[str]) -> Conditions:
    """Split conditions over the columns of both sides."""
    conditions = Conditions()
    for tree in trees:
        for part in split_and(tree, lambda between: not between.args.get("symmetric")):
            _classify(part, left, right, conditions)
    return conditions


def _classify(part: exp.Expr, left: frozenset[str], right: frozenset[str], to: Conditions) -> None:
    columns = columns_of(part)
    if isinstance(part, exp.Boolean) and part.this:
        return
    if columns <= left:
        to.left.append(part)
    elif columns <= right:
        to.right.append(part)
    else:
        compared, bound = _compare(part, left, right), bound_of(part, left, right)
        if bound is not None:
            to.bounds.append((bound, compared, part))
        elif compared is not None:
            to.compared.append(compared)
        else:
            to.mixed.append(part)


def columns_of(tree: exp.Expr) -> frozenset[str]:
    return frozenset(each.name for each in tree.find_all(exp.Column))


def _compare(part: exp.Expr, left: frozenset[str], right: frozenset[str]) -> Compared | None:
    op = OPERATORS.get(type(part))
    if op is None:
        return None
    one, other = part.this, part.expression
    if columns_of(one) <= left and columns_of(other) <= right:
        return Compared(one, op, other, part)
    if columns_of(one) <= right and columns_of(other) <= left:
        return Compared(other, MIRRORED[op], one, part)
    return None
