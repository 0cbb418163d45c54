"""A rank with an upper bound is a top-N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tidegate.plan import Filter, Node, Rank, Scalar, TopN, conjunction, conjuncts, rewrite_up


def bound_ranks(plan: Node) -> Node:
    """
    Before:  Filter n <= 3 AND price > 5 <- Rank row_number as n per item order by price desc
    After:   Filter price > 5 <- TopN places 1..3 per item order by price desc, row_number as n
    """
    return rewrite_up(plan, _bound)


@dataclass(frozen=True)
class Places:
    """The places from `low` to `high`, both included; None is no bound."""

    low: int | None = None
    high: int | None = None

    def both(self, other: Places) -> Places:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Places(max(lows, default=None), min(highs, default=None))


def _bound(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Rank):
        return node
    ranked = node.input
    places, rest = Places(), []
    for part in conjuncts(node.condition):
        found = _places(part.tree.unnest(), ranked.out)
        if found is None:
            rest.append(part)
        else:
            places = places.both(found)
    if places.high is None:
        return node
    return _top(ranked, places.low or 1, places.high, tuple(rest))


def _top(ranked: Rank, low: int, high: int, rest: tuple[Scalar, ...]) -> Node:
    offset = max(low, 1) - 1
    top = TopN(
        input=ranked.input,
        partition=ranked.partition,
        order=ranked.order,
        limit=max(high - offset, 0),
        offset=offset,
        function=ranked.function,
        rank=ranked.out,
    )
    return Filter(top, conjunction(rest)) if rest else top


def _places(tree: exp.Expr, rank: str) -> Places | None:
    """The places that a condition on the rank alone leaves; None if it is not such a condition."""
    match tree:
        case exp.Between() if _is_rank(tree.this, rank):
            low, high = _number(tree.args["low"]), _number(tree.args["high"])
            return Places(low, high) if low is not None and high is not None else None
        case exp.In() if _is_rank(tree.this, rank):
            return _listed([_number(each) for each in tree.expressions])
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared(tree, rank)
        case _:
            return None


def _compared(tree: exp.Binary, rank: str) -> Places | None:
    kind: type[exp.Expr] = type(tree)
    number = _number(tree.right) if _is_rank(tree.left, rank) else None
    if number is None and _is_rank(tree.right, rank):
        number, kind = _number(tree.left), _MIRRORED.get(kind, kind)
    if number is None:
        return None
    return _PLACES[kind](number)


_PLACES: dict[type[exp.Expr], Callable[[int], Places]] = {
    exp.EQ: lambda number: Places(number, number),
    exp.LTE: lambda number: Places(None, number),
    exp.LT: lambda number: Places(None, number - 1),
    exp.GTE: lambda number: Places(number, None),
    exp.GT: lambda number: Places(number + 1, None),
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}


def _listed(numbers: list[int | None]) -> Places | None:
    """IN (1, 2, 3): a run without gaps."""
    found = sorted({number for number in numbers if number is not None})
    if None in numbers or not found or found[-1] - found[0] + 1 != len(found):
        return None
    return Places(found[0], found[-1])


def _is_rank(tree: exp.Expr, rank: str) -> bool:
    tree = tree.unnest()
    return isinstance(tree, exp.Column) and tree.name == rank


def _number(tree: exp.Expr) -> int | None:
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        value = _number(tree.this)
        return None if value is None else -value
    return int(tree.name) if isinstance(tree, exp.Literal) and tree.is_int else None
