"""A rank with an upper bound is a top-N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from tidegate.plan import Filter, Node, Rank, Scalar, TopN, conjunction, conjuncts, rewrite_up


def bound_ranks(plan: Node) -> Node:
    """
    Before:  Filter n <= 3 AND price > 5 <- Rank row_number as n per item order by price desc
    After:   Filter price > 5 <- TopN ranks 1..3 per item order by price desc, row_number as n
    """
    return rewrite_up(plan, _bound)


@dataclass(frozen=True)
class RankRange:
    """The ranks from `low` to `high`, both included; None is no bound."""

    low: int | None = None
    high: int | None = None

    def intersect(self, other: RankRange) -> RankRange:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return RankRange(max(lows, default=None), min(highs, default=None))


def _bound(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Rank):
        return node
    ranked = node.input
    ranks, rest = RankRange(), []
    for part in conjuncts(node.condition):
        allowed = _range_of(part.tree.unnest(), ranked.out)
        if allowed is None:
            rest.append(part)
        else:
            ranks = ranks.intersect(allowed)
    if ranks.high is None:
        return node
    return _top(ranked, ranks.low or 1, ranks.high, tuple(rest))


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


def _range_of(tree: exp.Expr, rank: str) -> RankRange | None:
    """The ranks that pass a condition on the rank alone; None for other conditions."""
    match tree:
        case exp.Between() if _is_rank(tree.this, rank):
            low, high = _number(tree.args["low"]), _number(tree.args["high"])
            return RankRange(low, high) if low is not None and high is not None else None
        case exp.In() if _is_rank(tree.this, rank):
            return _range_of_list([_number(each) for each in tree.expressions])
        case exp.EQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _range_of_comparison(tree, rank)
        case _:
            return None


def _range_of_comparison(tree: exp.Binary, rank: str) -> RankRange | None:
    kind: type[exp.Expr] = type(tree)
    number = _number(tree.right) if _is_rank(tree.left, rank) else None
    if number is None and _is_rank(tree.right, rank):
        number, kind = _number(tree.left), _MIRRORED.get(kind, kind)
    if number is None:
        return None
    return _RANGES[kind](number)


_RANGES: dict[type[exp.Expr], Callable[[int], RankRange]] = {
    exp.EQ: lambda number: RankRange(number, number),
    exp.LTE: lambda number: RankRange(None, number),
    exp.LT: lambda number: RankRange(None, number - 1),
    exp.GTE: lambda number: RankRange(number, None),
    exp.GT: lambda number: RankRange(number + 1, None),
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}


def _range_of_list(numbers: list[int | None]) -> RankRange | None:
    """The range of IN (1, 2, 3); None if the numbers have gaps."""
    known = sorted({number for number in numbers if number is not None})
    if None in numbers or not known or known[-1] - known[0] + 1 != len(known):
        return None
    return RankRange(known[0], known[-1])


def _is_rank(tree: exp.Expr, rank: str) -> bool:
    tree = tree.unnest()
    return isinstance(tree, exp.Column) and tree.name == rank


def _number(tree: exp.Expr) -> int | None:
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        value = _number(tree.this)
        return None if value is None else -value
    return int(tree.name) if isinstance(tree, exp.Literal) and tree.is_int else None
