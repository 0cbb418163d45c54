"""WHERE: ordinary conditions, and comparisons with NOW(), which become a temporal filter.

`ts > NOW() - INTERVAL '1' HOUR` -> a row leaves at its ts + 1 hour, in microseconds of processing time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.aggregates import is_aggregate
from tidegate.bind.context import Analyzer
from tidegate.bind.expressions import split_and, types_of
from tidegate.bind.scope import Scope, resolve
from tidegate.bind.unsupported import check_expression, is_now, unsupported
from tidegate.errors import make
from tidegate.plan import Filter, Item, Node, Project, Scalar, TemporalFilter, conjunction, conjuncts, keep
from tidegate.sql import call, length, render, span_of

SINCE, UNTIL = "__since", "__until"
_MOMENTS = ("timestamp", "timestamp_ntz", "date", "string")


@dataclass(frozen=True)
class Bound:
    """An end of the time in which a row passes: it passes since or until `moment`, or just after it."""

    side: str
    moment: Scalar
    after: bool

    @property
    def micros(self) -> exp.Expr:
        cast = exp.Cast(this=self.moment.tree.copy(), to=exp.DataType.build("timestamp"))
        micros = exp.Anonymous(this="unix_micros", expressions=[cast])
        return exp.Add(this=micros, expression=exp.Literal.number(1)) if self.after else micros


@dataclass(frozen=True)
class Where:
    """The conditions and time bounds of WHERE; false if there are none. `trees` are the conditions as written."""

    conditions: tuple[Scalar, ...] = ()
    bounds: tuple[Bound, ...] = ()
    trees: tuple[exp.Expr, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.bounds)

    def split(self) -> Where:
        """The same with conditions split at AND."""
        return Where(tuple(part for each in self.conditions for part in conjuncts(each)), self.bounds)

    def only(self, test: Callable[[frozenset[str]], bool]) -> Where:
        """The conditions and bounds whose columns pass a test."""
        return Where(
            tuple(each for each in self.conditions if test(each.columns)),
            tuple(each for each in self.bounds if test(each.moment.columns)),
        )

    def apply(self, analyzer: Analyzer, plan: Node) -> Node:
        """The rows of a plan that pass."""
        if self.conditions:
            plan = Filter(plan, conjunction(self.conditions))
        return _temporal_filter(analyzer, plan, self.bounds) if self.bounds else plan


def bind_where(select: exp.Select, scope: Scope) -> Where:
    """The WHERE of a SELECT over the columns of FROM."""
    clause = select.args.get("where")
    if clause is None:
        return Where()
    parts = list(split_and(clause.this, _contains_now))
    bounds = {id(part): _bounds(part) for part in parts if _contains_now(part)}
    temporal = tuple(bound for each in bounds.values() for bound in each)
    others = [part for part in parts if not bounds.get(id(part))] if temporal else [clause.this]
    for part in others:
        check_expression(part)
        _check_row_condition(part)
    for bound in temporal:
        check_expression(bound.moment.tree)
    return Where(
        tuple(Scalar(resolve(part, scope)) for part in others),
        tuple(Bound(each.side, Scalar(resolve(each.moment.tree, scope)), each.after) for each in temporal),
        tuple(resolve(part, scope) for part in (parts if temporal else others)),
    )


def _check_row_condition(tree: exp.Expr) -> None:
    """Reject aggregates and OVER, which need more than a single row."""
    for node in tree.walk():
        if is_aggregate(node):
            aggregate = call(node)
            name = aggregate.name.upper() if aggregate else "an aggregate"
            message = f"WHERE cannot hold {name}: it is evaluated before rows are grouped"
            raise make("NOT_SUPPORTED", message=message, hint="write it in HAVING", span=span_of(node))
        if isinstance(node, exp.Window):
            message = "WHERE cannot hold OVER (...)"
            raise make("NOT_SUPPORTED", message=message, hint="write it in QUALIFY", span=span_of(node))


def _contains_now(tree: exp.Expr) -> bool:
    return any(is_now(node) for node in tree.walk())


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


_ENDS: dict[type[exp.Expr], tuple[tuple[str, bool], ...]] = {
    exp.LT: (("until", False),),
    exp.LTE: (("until", True),),
    exp.GT: (("since", True),),
    exp.GTE: (("since", False),),
    exp.EQ: (("since", False), ("until", True)),
}
"""What `NOW() < moment` and its like mean: a row passes since or until the moment, or (True) just after it."""


def _bounds(part: exp.Expr) -> tuple[Bound, ...]:
    """The bounds of a comparison with NOW(); none if NOW() cannot be isolated."""
    operator = type(part)
    if operator not in _MIRRORED:
        return ()
    left, right = part.this.unnest(), part.expression.unnest()
    moment = _isolate_now(left, right)
    if moment is None:
        operator, moment = _MIRRORED[operator], _isolate_now(right, left)
    if moment is None:
        return ()
    return tuple(Bound(side, Scalar(moment), after) for side, after in _ENDS[operator])


def _isolate_now(side: exp.Expr, other: exp.Expr) -> exp.Expr | None:
    """The moment to compare NOW() with, if `side` contains NOW(): `NOW() - d < ts` -> `ts + d`."""
    if _contains_now(other):
        return None
    if is_now(side):
        return other
    if not isinstance(side, exp.Add | exp.Sub):
        return None
    back = exp.Sub if isinstance(side, exp.Add) else exp.Add
    inner, amount = side.this.unnest(), side.expression.unnest()
    if isinstance(side, exp.Add) and length(inner) is not None:
        inner, amount = amount, inner
    if length(amount) is None and (isinstance(side, exp.Add) or length(other) is None):
        return None
    for tree in (amount, other):
        _check_months(tree)
    return _isolate_now(inner, back(this=_parenthesize(other), expression=_parenthesize(amount)))


def _check_months(tree: exp.Expr) -> None:
    duration = length(tree)
    if duration is not None and duration.months:
        hint = "write a fixed length: INTERVAL '30' DAY"
        detail = "months have no fixed length"
        raise unsupported("NOW() plus or minus months", span_of(tree), hint, detail)


def _parenthesize(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree.copy()) if isinstance(tree, exp.Binary) else tree.copy()


def _temporal_filter(analyzer: Analyzer, plan: Node, bounds: tuple[Bound, ...]) -> Node:
    """The rows within all bounds. A row with NULL in a bound never passes."""
    _check_moments(analyzer, plan, bounds)
    known = [exp.Not(this=exp.Is(this=_parenthesize(tree), expression=exp.Null())) for tree in _moments(bounds)]
    plan = Filter(plan, conjunction(tuple(Scalar(tree) for tree in known)))
    items = [keep(plan, name) for name in plan.columns]
    names = {}
    for side, name, pick in (("since", SINCE, "greatest"), ("until", UNTIL, "least")):
        micros = [bound.micros for bound in bounds if bound.side == side]
        if micros:
            tree = micros[0] if len(micros) == 1 else exp.Anonymous(this=pick, expressions=micros)
            items.append(Item(name, Scalar(tree), "bigint"))
            names[side] = name
    return TemporalFilter(Project(plan, tuple(items)), names.get("since"), names.get("until"))


def _moments(bounds: tuple[Bound, ...]) -> list[exp.Expr]:
    return list({bound.moment.sql: bound.moment.tree for bound in bounds}.values())


def _check_moments(analyzer: Analyzer, plan: Node, bounds: tuple[Bound, ...]) -> None:
    trees = _moments(bounds)
    for tree, column in zip(trees, types_of(analyzer, plan.schema, trees), strict=True):
        if column.type not in _MOMENTS:
            message = f"NOW() is compared with {render(tree)}, which is {column.type.upper()}"
            raise make("TYPE_MISMATCH", message=message, hint="compare it with a TIMESTAMP", span=span_of(tree))
