"""Which expressions can fail: all but those that are known to give a value for every row."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp, parse_one

from tidegate.spark.consumers import Consumer, rounds_of
from tidegate.sql import Tidegate

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_PLAIN = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.Alias,
    exp.Dot,
    exp.Predicate,
    exp.Connector,
    exp.Not,
    exp.Case,
    exp.If,
    exp.Coalesce,
    exp.DataType,
    exp.DataTypeParam,
    exp.Bracket,
    exp.Distinct,
    exp.Tuple,
    exp.Var,
)
_RAISING_PREDICATES = (exp.RegexpLike, exp.Like, exp.ILike, exp.SimilarTo)
_HARMLESS_NAMES = """
    abs array array_contains ascii bit_length boolean ceil ceiling char_length character_length coalesce concat
    date_trunc day dayofmonth dayofweek dayofyear exists floor get_json_object greatest hour if ifnull initcap instr
    isnotnull isnull lcase least left length lower ltrim minute month named_struct nanvl nullif nvl nvl2 octet_length
    position quarter right round rtrim second size struct substr substring trim try_parse_json try_variant_get ucase
    upper weekday weekofyear xxhash64 year
"""
_HARMLESS = frozenset(_HARMLESS_NAMES.split())
"""Functions that give NULL, or another value, whatever their arguments are."""


def may_raise(sql: str, types: Mapping[str, str]) -> bool:
    """True unless the expression gives a value for every row. `types`: the types of known columns."""
    tree = parse_one(f"SELECT {sql}", read=Tidegate).expressions[0]
    return any(_may_raise(node, types) for node in tree.walk())


def _may_raise(node: exp.Expr, types: Mapping[str, str]) -> bool:
    if isinstance(node, _ARITHMETIC):
        operands = [node.this] if isinstance(node, exp.Neg) else [node.this, node.expression]
        return not all(_is_number(each, types) for each in operands)
    if isinstance(node, exp.Cast):
        return node.to.this not in _SAFE_CASTS
    if isinstance(node, exp.Anonymous):
        return node.name.lower() not in _HARMLESS
    return not isinstance(node, _PLAIN) or isinstance(node, _RAISING_PREDICATES)


_SAFE_CASTS = frozenset(
    {
        *(exp.DataType.Type[each] for each in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")),
        exp.DataType.Type.DECIMAL,
    }
)
"""Casts to times give times beyond the year 9999, casts to STRING bytes that are not UTF-8."""


def _is_number(node: exp.Expr, types: Mapping[str, str]) -> bool:
    match node:
        case exp.Paren():
            return _is_number(node.this, types)
        case exp.Literal():
            return not node.is_string
        case exp.Column():
            return types.get(node.name, "").split("(")[0] in _NUMBERS
        case exp.Neg() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return True
        case exp.Cast():
            return node.to.this in _SAFE_CASTS
    return False


def can_fail(consumer: Consumer, types: Mapping[str, str]) -> bool:
    """True if some expression of a branch may raise. `types`: the types of the columns that the branch reads."""
    known = dict(types)
    for filters, items, _ in rounds_of(consumer.branch):
        items = tuple(items)
        if any(may_raise(sql, known) for sql in [*filters, *(sql for _, sql in items)]):
            return True
        known = {name: known[source] for name, sql in items if (source := column_of(sql)) in known}
    return False


def column_of(sql: str) -> str:
    """The name, if the expression is just that."""
    return sql[1:-1].replace("``", "`") if sql.startswith("`") and sql.endswith("`") else ""
