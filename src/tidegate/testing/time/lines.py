"""Waterlines of a query's columns, inferred the plain way: what keeps order keeps the waterline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.core.types import Type
from tidegate.sql import call
from tidegate.testing.time.amounts import Number

Evaluate = Callable[[str, Mapping[str, tuple[Number, Type]]], Number | None]
At = Callable[[int, int], Number | None]
BEFORE, AFTER = 0, 1


@dataclass(frozen=True)
class Line:
    """A waterline on the axis of its column: `at(BEFORE, lag)` and `at(AFTER, lag)` the micro-batch, as if the
    frontiers of the inputs were `lag` microseconds behind. `watermarked`: it comes from WATERMARK FOR."""

    at: At
    kind: Type
    watermarked: bool = False


Lines = dict[str, Line]

_FIRST = """
    date to_date year floor ceil ceiling round unix_micros unix_millis unix_seconds unix_timestamp timestamp
    date_add date_sub
"""
FIRST = frozenset(_FIRST.split())
SECOND = frozenset({"date_trunc"})


def line_of(tree: exp.Expr, lines: Lines, evaluate: Evaluate) -> Line | None:
    """The waterline of an expression over columns; None if it has none."""
    tree = tree.unalias().unnest()
    if isinstance(tree, exp.Column):
        return lines.get(tree.name.lower())
    names = {node.name.lower() for node in tree.find_all(exp.Column)}
    used = {name: lines[name] for name in names if name in lines}
    if not used or not monotone(tree, lines):
        return None
    sql, some = tree.copy(), next(iter(used.values()))
    for column in sql.find_all(exp.Column):
        column.set("table", None)

    def at(moment: int, lag: int) -> Number | None:
        values = {name: line.at(moment, lag) for name, line in used.items()}
        if any(value is None for value in values.values()):
            return None
        if any(value == float("inf") for value in values.values()):
            return float("inf")
        given = {name: (value, used[name].kind) for name, value in values.items() if value is not None}
        return evaluate(sql.sql(dialect="spark"), given)

    return Line(at, some.kind, any(line.watermarked for line in used.values()))


def monotone(tree: exp.Expr, lines: Lines) -> bool:
    """Whether an expression keeps order in the columns that have waterlines."""
    match tree:
        case exp.Paren():
            return monotone(tree.this, lines)
        case exp.Column():
            return tree.name.lower() in lines
        case exp.Add():
            return _parts((tree.left, tree.right), lines)
        case exp.Sub():
            return monotone(tree.left, lines) and constant(tree.right)
        case exp.Mul() | exp.Div():
            return monotone(tree.left, lines) and _positive(tree.right)
        case exp.Cast():
            return monotone(tree.this, lines) and tree.to.sql().upper() in ("DATE", "TIMESTAMP", "BIGINT", "DOUBLE")
    found = call(tree)
    if found is None or not found.args:
        return False
    if found.name in ("greatest", "least"):
        return _parts(found.args, lines)
    place = 0 if found.name in FIRST else 1 if found.name in SECOND else None
    if place is None or len(found.args) <= place:
        return False
    others = [arg for number, arg in enumerate(found.args) if number != place]
    return monotone(found.args[place], lines) and all(constant(arg) for arg in others)


def constant(tree: exp.Expr) -> bool:
    return tree.find(exp.Column) is None


def _parts(parts: tuple[exp.Expr, ...], lines: Lines) -> bool:
    return all(constant(part) or monotone(part, lines) for part in parts)


def _positive(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.name) > 0


def least(lines: list[Line]) -> Line:
    """The smallest of several; all are needed."""

    def at(moment: int, lag: int) -> Number | None:
        found = [line.at(moment, lag) for line in lines]
        known = [one for one in found if one is not None]
        return min(known) if len(known) == len(found) else None

    return Line(at, lines[0].kind, any(line.watermarked for line in lines))
