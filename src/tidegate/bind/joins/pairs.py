"""Joins whose condition cannot be taken apart: pairs are made and tested first, and then it is seen which rows found
none. `a LEFT JOIN b ON a.k = b.k AND f(a.x, b.y)` is the pairs for which f holds, and the rows of a that are in none.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.bind.context import unique
from tidegate.bind.joins.conditions import Conditions
from tidegate.bind.joins.sides import Side, comparison, held, key_pair
from tidegate.bind.storable import cast
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, KeyPair
from tidegate.plan import Filter, Item, Join, Node, Project, Scalar, UnionAll, conjunction, kept


def by_pairs(kind: str, found: Conditions, left: Side, right: Side, taken: set[str]) -> Node:
    """The join by way of its pairs."""
    keys = tuple(key_pair(left, right, each) for each in found.equalities)
    conditions = tuple(comparison(left, right, each) for each in found.compared if not each.equality)
    conditions += tuple(held(left, right, tree, True) for tree in found.left)
    conditions += tuple(held(left, right, tree, False) for tree in found.right)
    columns = (*left.columns, *right.columns)
    pairs: Node = Join(INNER, left.plan, right.plan, keys, conditions, columns)
    pairs = Filter(pairs, conjunction(tuple(Scalar(tree) for tree in found.mixed)))
    if kind in (SEMI, ANTI):
        return _in_pairs(kind, left, pairs, taken)
    alone = [
        _padded(_in_pairs(ANTI, side, pairs, taken), pairs)
        for side, kinds in ((left, (LEFT, FULL)), (right, (RIGHT, FULL)))
        if kind in kinds
    ]
    return UnionAll((_nullable(pairs), *alone))


def _in_pairs(kind: str, side: Side, pairs: Node, taken: set[str]) -> Node:
    """The rows of a side that are in some pair, or in none."""
    names = {name: unique("__p", taken) for name in side.columns}
    met = Project(pairs, tuple(kept(pairs, name, names[name]) for name in side.columns))
    keys = tuple(KeyPair(name, names[name], null_safe=True) for name in side.columns)
    return Join(kind, side.plan, met, keys, (), side.columns)


def _padded(rows: Node, pairs: Node) -> Node:
    """Rows of one side with NULL for the other's columns."""
    return Project(rows, tuple(_column(rows, name, pairs) for name in pairs.columns))


def _column(rows: Node, name: str, pairs: Node) -> Item:
    if name in rows.columns:
        item = kept(rows, name)
        return Item(item.name, item.expression, item.type, True)
    type = next(column.type for column in pairs.schema if column.name == name)
    return Item(name, Scalar(cast(exp.Null(), type)), type, True)


def _nullable(pairs: Node) -> Node:
    return Project(pairs, tuple(_column(pairs, name, pairs) for name in pairs.columns))
