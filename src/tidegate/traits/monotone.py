"""Expressions that keep order: if the arguments never go below their watermarks, the result never goes below the
expression of the watermarks. The tables below list them."""

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


def watermark_of(tree: exp.Expr, type: str, watermarks: Mapping[str, Watermark]) -> tuple[Watermark | None, str | None]:
    """The watermark of an expression over columns with watermarks, or the text of the part that lost it. Neither if no
    column in it has one."""
    columns = {node.name for node in tree.find_all(exp.Column)}
    if not columns & watermarks.keys():
        return None, None
    if isinstance(tree.unnest(), exp.Column):
        return watermarks[tree.unnest().name], None
    effect = judge(tree, watermarks)
    if not effect.monotone:
        return None, render(effect.lost if effect.lost is not None else tree)
    used = tuple((name, watermarks[name]) for name in sorted(columns & watermarks.keys()))
    return Expression(type, render(tree.transform(lambda node: _null_if_unknown(node, watermarks))), used), None


def _null_if_unknown(node: exp.Expr, watermarks: Mapping[str, Watermark]) -> exp.Expr:
    """Columns without a watermark occur only in GREATEST, which ignores NULL."""
    return exp.Null() if isinstance(node, exp.Column) and node.name not in watermarks else node


def judge(tree: exp.Expr, watermarks: Mapping[str, Watermark]) -> OrderEffect:
    """The effect of an expression on the order of its arguments."""
    match tree:
        case exp.Paren() | exp.Alias():
            return judge(tree.this, watermarks)
        case exp.Column():
            return _MONOTONE if tree.name in watermarks else OrderEffect(lost=tree)
        case exp.Literal() | exp.Interval() | exp.Null() | exp.Boolean():
            return _CONSTANT
        case exp.Neg():
            return _CONSTANT if judge(tree.this, watermarks).constant else OrderEffect(lost=tree)
        case exp.Add():
            return _judge_sum(tree, judge(tree.left, watermarks), judge(tree.right, watermarks))
        case exp.Sub():
            return _judge_difference(tree, judge(tree.left, watermarks), judge(tree.right, watermarks))
        case exp.Mul():
            return _judge_product(tree, watermarks)
        case exp.Div() | exp.IntDiv():
            left = judge(tree.left, watermarks)
            return left if left.constant or (left.monotone and _positive(tree.right)) else OrderEffect(lost=tree)
        case exp.Cast() | exp.TryCast():
            return _judge_cast(tree, watermarks)
    return _judge_call(tree, watermarks)


def _judge_sum(tree: exp.Expr, left: OrderEffect, right: OrderEffect) -> OrderEffect:
    """A sum grows with each of its parts."""
    for side in (left, right):
        if not side.constant and not side.monotone:
            return OrderEffect(lost=side.lost if side.lost is not None else tree)
    return _CONSTANT if left.constant and right.constant else _MONOTONE


def _judge_difference(tree: exp.Expr, left: OrderEffect, right: OrderEffect) -> OrderEffect:
    return left if right.constant else OrderEffect(lost=tree)


def _judge_product(tree: exp.Mul, watermarks: Mapping[str, Watermark]) -> OrderEffect:
    left, right = judge(tree.left, watermarks), judge(tree.right, watermarks)
    if left.constant and right.constant:
        return _CONSTANT
    if (left.monotone and _positive(tree.right)) or (right.monotone and _positive(tree.left)):
        return _MONOTONE
    return OrderEffect(lost=tree)


def _positive(tree: exp.Expr) -> bool:
    """True for a literal above zero."""
    tree = tree.unnest()
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.name) > 0


def _judge_cast(tree: exp.Cast | exp.TryCast, watermarks: Mapping[str, Watermark]) -> OrderEffect:
    inner = judge(tree.this, watermarks)
    if not inner.monotone:
        return inner if inner.constant or inner.lost is not None else OrderEffect(lost=tree)
    target = render(tree.to).lower().split("(")[0]
    column = next((node for node in tree.this.find_all(exp.Column) if node.name in watermarks), None)
    source = watermarks[column.name].type.split("(")[0] if column is not None else ""
    return _MONOTONE if target in ORDERED_CASTS.get(source, ()) else OrderEffect(lost=tree)


def _judge_call(tree: exp.Expr, watermarks: Mapping[str, Watermark]) -> OrderEffect:
    function = call(tree)
    if function is None:
        return OrderEffect(lost=tree) if any(tree.find_all(exp.Column)) else _CONSTANT
    sides = [judge(arg, watermarks) for arg in function.args]
    if sides and all(side.constant for side in sides):
        return _CONSTANT
    if function.name == "greatest":
        return _MONOTONE if any(side.monotone for side in sides) else OrderEffect(lost=tree)
    if function.name == "least":
        return _MONOTONE if all(side.monotone or side.constant for side in sides) else OrderEffect(lost=tree)
    for position, names in ((0, FIRST_ARGUMENT), (1, SECOND_ARGUMENT), (-1, LAST_ARGUMENT)):
        if function.name in names and _only_monotone(sides, position):
            return _MONOTONE
    return OrderEffect(lost=tree)


def _only_monotone(sides: list[OrderEffect], position: int) -> bool:
    """True if the argument at that position is monotone and all others are constants."""
    if not -len(sides) <= position < len(sides):
        return False
    chosen = position % len(sides)
    return sides[chosen].monotone and all(side.constant for number, side in enumerate(sides) if number != chosen)
