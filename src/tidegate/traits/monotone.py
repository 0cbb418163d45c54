"""Expressions that keep order: if the arguments never go below their watermarks, the result never goes below the
expression of the watermarks. What does is written here as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql import call, render
from tidegate.traits.watermark import Expression, Watermark

_FIRST = """
    date to_date to_timestamp timestamp year floor ceil ceiling round bround unix_micros unix_millis unix_seconds
    unix_timestamp to_unix_timestamp unix_date timestamp_micros timestamp_millis timestamp_seconds date_from_unix_date
    date_add dateadd date_sub add_months bigint int double float decimal last_day to_timestamp_ntz to_timestamp_ltz
    trunc
"""
FIRST_ARGUMENT = frozenset(_FIRST.split())
"""Monotone in the first argument while the others are constants."""

SECOND_ARGUMENT = frozenset({"date_trunc"})
LAST_ARGUMENT = frozenset({"timestampadd", "dateadd"})

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
ORDERED_CASTS = dict.fromkeys(_NUMBERS, _NUMBERS) | {
    "date": _TIMES,
    "timestamp": (*_TIMES, "bigint", "double", "decimal"),
    "timestamp_ntz": _TIMES,
}
"""Casts that keep order, from a type to types."""


@dataclass(frozen=True)
class OrderEffect:
    """What an expression does to order: it is constant, or monotone; `lost` is the part that keeps no order."""

    constant: bool = False
    monotone: bool = False
    lost: exp.Expr | None = None


_CONSTANT = OrderEffect(constant=True)
_MONOTONE = OrderEffect(monotone=True)


def watermark_of(tree: exp.Expr, type: str, lines: Mapping[str, Watermark]) -> tuple[Watermark | None, str | None]:
    """The watermark of an expression over columns that have lines, or the text of the part that lost it. Neither if no
    column in it has one."""
    columns = {node.name for node in tree.find_all(exp.Column)}
    if not columns & lines.keys():
        return None, None
    if isinstance(tree.unnest(), exp.Column):
        return lines[tree.unnest().name], None
    found = judge(tree, lines)
    if not found.monotone:
        return None, render(found.lost if found.lost is not None else tree)
    used = tuple((name, lines[name]) for name in sorted(columns & lines.keys()))
    return Expression(type, render(tree.transform(lambda node: _null_if_unknown(node, lines))), used), None


def _null_if_unknown(node: exp.Expr, lines: Mapping[str, Watermark]) -> exp.Expr:
    """Columns without a line only stand in GREATEST, which passes over NULL."""
    return exp.Null() if isinstance(node, exp.Column) and node.name not in lines else node


def judge(tree: exp.Expr, lines: Mapping[str, Watermark]) -> OrderEffect:
    """What becomes of order in an expression."""
    match tree:
        case exp.Paren() | exp.Alias():
            return judge(tree.this, lines)
        case exp.Column():
            return _MONOTONE if tree.name in lines else OrderEffect(lost=tree)
        case exp.Literal() | exp.Interval() | exp.Null() | exp.Boolean():
            return _CONSTANT
        case exp.Neg():
            return _CONSTANT if judge(tree.this, lines).constant else OrderEffect(lost=tree)
        case exp.Add():
            return _judge_sum(tree, judge(tree.left, lines), judge(tree.right, lines))
        case exp.Sub():
            return _judge_difference(tree, judge(tree.left, lines), judge(tree.right, lines))
        case exp.Mul():
            return _judge_product(tree, lines)
        case exp.Div() | exp.IntDiv():
            left = judge(tree.left, lines)
            return left if left.constant or (left.monotone and _positive(tree.right)) else OrderEffect(lost=tree)
        case exp.Cast() | exp.TryCast():
            return _judge_cast(tree, lines)
    return _judge_call(tree, lines)


def _judge_sum(tree: exp.Expr, left: OrderEffect, right: OrderEffect) -> OrderEffect:
    """A sum grows with each of its parts."""
    for side in (left, right):
        if not side.constant and not side.monotone:
            return OrderEffect(lost=side.lost if side.lost is not None else tree)
    return _CONSTANT if left.constant and right.constant else _MONOTONE


def _judge_difference(tree: exp.Expr, left: OrderEffect, right: OrderEffect) -> OrderEffect:
    return left if right.constant else OrderEffect(lost=tree)


def _judge_product(tree: exp.Mul, lines: Mapping[str, Watermark]) -> OrderEffect:
    left, right = judge(tree.left, lines), judge(tree.right, lines)
    if left.constant and right.constant:
        return _CONSTANT
    if (left.monotone and _positive(tree.right)) or (right.monotone and _positive(tree.left)):
        return _MONOTONE
    return OrderEffect(lost=tree)


def _positive(tree: exp.Expr) -> bool:
    """A literal above zero."""
    tree = tree.unnest()
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.name) > 0


def _judge_cast(tree: exp.Cast | exp.TryCast, lines: Mapping[str, Watermark]) -> OrderEffect:
    inner = judge(tree.this, lines)
    if not inner.monotone:
        return inner if inner.constant or inner.lost is not None else OrderEffect(lost=tree)
    target = render(tree.to).lower().split("(")[0]
    column = next((node for node in tree.this.find_all(exp.Column) if node.name in lines), None)
    source = lines[column.name].type.split("(")[0] if column is not None else ""
    return _MONOTONE if target in ORDERED_CASTS.get(source, ()) else OrderEffect(lost=tree)


def _judge_call(tree: exp.Expr, lines: Mapping[str, Watermark]) -> OrderEffect:
    found = call(tree)
    if found is None:
        return OrderEffect(lost=tree) if any(tree.find_all(exp.Column)) else _CONSTANT
    sides = [judge(arg, lines) for arg in found.args]
    if sides and all(side.constant for side in sides):
        return _CONSTANT
    if found.name == "greatest":
        return _MONOTONE if any(side.monotone for side in sides) else OrderEffect(lost=tree)
    if found.name == "least":
        return _MONOTONE if all(side.monotone or side.constant for side in sides) else OrderEffect(lost=tree)
    for place, names in ((0, FIRST_ARGUMENT), (1, SECOND_ARGUMENT), (-1, LAST_ARGUMENT)):
        if found.name in names and _only(sides, place):
            return _MONOTONE
    return OrderEffect(lost=tree)


def _only(sides: list[OrderEffect], place: int) -> bool:
    """True if the argument in that place is monotone and all others are constants."""
    if not -len(sides) <= place < len(sides):
        return False
    chosen = place % len(sides)
    return sides[chosen].monotone and all(side.constant for number, side in enumerate(sides) if number != chosen)
