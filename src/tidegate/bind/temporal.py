"""WHERE: conditions that rows meet or not, and temporal ones, which rows meet for a time.

`ts > NOW() - INTERVAL '1' HOUR` -> a row is there until its ts + 1 hour, in microseconds of processing time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.context import Analyzer
from tidegate.bind.grouping import unsupported_in_where
from tidegate.bind.scope import Scope, resolve
from tidegate.bind.unsupported import check_expression, is_now, unsupported
from tidegate.errors import make
from tidegate.plan import Filter, Item, Node, Project, Scalar, TemporalFilter, conjunction, conjuncts, keep
from tidegate.sql import length, render, span_of

SINCE, UNTIL = "__since", "__until"
_MOMENTS = ("timestamp", "timestamp_ntz", "date", "string")


@dataclass(frozen=True)
class Bound:
    """One end of the time in which a row is there: `since` or `until` a moment, or just after it."""

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
    """What all rows must meet. Nothing to meet is false. `trees` is all of it as written."""

    conditions: tuple[Scalar, ...] = ()
    bounds: tuple[Bound, ...] = ()
    trees: tuple[exp.Expr, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.bounds)

    def parted(self) -> Where:
        """The same with each part of its conditions on its own."""
        return Where(tuple(part for each in self.conditions for part in conjuncts(each)), self.bounds)

    def only(self, test: Callable[[frozenset[str]], bool]) -> Where:
        """The parts whose columns pass a test."""
        return Where(
            tuple(each for each in self.conditions if test(each.columns)),
            tuple(each for each in self.bounds if test(each.moment.columns)),
        )

    def of(self, analyzer: Analyzer, plan: Node) -> Node:
        """The rows that meet it."""
        if self.conditions:
            plan = Filter(plan, conjunction(self.conditions))
        return _during(analyzer, plan, self.bounds) if self.bounds else plan


def where_of(select: exp.Select, scope: Scope) -> Where:
    """WHERE over the columns of FROM."""
    clause = select.args.get("where")
    if clause is None:
        return Where()
    parts = list(_parts(clause.this))
    bounds = {id(part): _bounds(part) for part in parts if any(is_now(node) for node in part.walk())}
    found = tuple(bound for each in bounds.values() for bound in each)
    others = [part for part in parts if not bounds.get(id(part))] if found else [clause.this]
    for part in others:
        check_expression(part)
        unsupported_in_where(part)
    for bound in found:
        check_expression(bound.moment.tree)
    return Where(
        tuple(Scalar(resolve(part, scope)) for part in others),
        tuple(Bound(each.side, Scalar(resolve(each.moment.tree, scope)), each.after) for each in found),
        tuple(resolve(part, scope) for part in (parts if found else others)),
    )


def _parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND connects; BETWEEN is two of them."""
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _parts(tree.left)
        yield from _parts(tree.right)
    elif isinstance(tree, exp.Between) and any(is_now(node) for node in tree.walk()):
        yield exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        yield exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
    else:
        yield tree


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


_SAYS: dict[type[exp.Expr], tuple[tuple[str, bool], ...]] = {
    exp.LT: (("until", False),),
    exp.LTE: (("until", True),),
    exp.GT: (("since", True),),
    exp.GTE: (("since", False),),
    exp.EQ: (("since", False), ("until", True)),
}
"""What NOW() < moment and its like say of a row: there since or until the moment, or (True) just after it."""


def _bounds(part: exp.Expr) -> tuple[Bound, ...]:
    """What a comparison with NOW() says; nothing if it is not one that can be kept."""
    operator = type(part)
    if operator not in _MIRRORED:
        return ()
    left, right = part.this.unnest(), part.expression.unnest()
    moment = _isolated(left, right)
    if moment is None:
        operator, moment = _MIRRORED[operator], _isolated(right, left)
    if moment is None:
        return ()
    return tuple(Bound(side, Scalar(moment), after) for side, after in _SAYS[operator])


def _isolated(side: exp.Expr, other: exp.Expr) -> exp.Expr | None:
    """The moment that NOW() is compared with where `side` holds NOW(): `NOW() - d < ts` -> `ts + d`."""
    if any(is_now(node) for node in other.walk()):
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
    return _isolated(inner, back(this=_wrapped(other), expression=_wrapped(amount)))


def _check_months(tree: exp.Expr) -> None:
    found = length(tree)
    if found is not None and found.months:
        hint = "write a fixed length: INTERVAL '30' DAY"
        detail = "months have no fixed length"
        raise unsupported("NOW() plus or minus months", span_of(tree), hint, detail)


def _wrapped(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree.copy()) if isinstance(tree, exp.Binary) else tree.copy()


def _during(analyzer: Analyzer, plan: Node, bounds: tuple[Bound, ...]) -> Node:
    """A row whose bound is NULL is never there."""
    _check_moments(analyzer, plan, bounds)
    known = [exp.Not(this=exp.Is(this=_wrapped(tree), expression=exp.Null())) for tree in _different(bounds)]
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


def _different(bounds: tuple[Bound, ...]) -> list[exp.Expr]:
    return list({bound.moment.sql: bound.moment.tree for bound in bounds}.values())


def _check_moments(analyzer: Analyzer, plan: Node, bounds: tuple[Bound, ...]) -> None:
    trees = _different(bounds)
    for tree, found in zip(trees, typing.types_of(analyzer, plan.schema, trees), strict=True):
        if found.type not in _MOMENTS:
            message = f"NOW() is compared with {render(tree)}, which is {found.type.upper()}"
            raise make("TYPE_MISMATCH", message=message, hint="compare it with a TIMESTAMP", span=span_of(tree))
