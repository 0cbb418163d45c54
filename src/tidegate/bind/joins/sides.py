"""The two sides of a join while it is bound: the columns it compares, and conditions that filter one side.

A condition that cannot be split is tested on pairs: `a LEFT JOIN b ON a.k = b.k AND f(a.x, b.y)` is the pairs for which
f holds, and the rows of a that are in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.bind.context import Context, unique
from tidegate.bind.expressions import typed_items
from tidegate.bind.joins.conditions import Compared, Conditions
from tidegate.bind.scope import source_text
from tidegate.bind.unsupported import cast, check_comparable, check_type, make_storable
from tidegate.core.schema import Column
from tidegate.core.types import without_void
from tidegate.errors import Error, Span, make
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, Comparison, KeyPair
from tidegate.plan import Filter, Item, Join, Node, Project, Scalar, UnionAll, conjunction, keep
from tidegate.sql import span_of

FILTERS_LEFT, FILTERS_RIGHT = (INNER, RIGHT, SEMI), (INNER, LEFT, SEMI, ANTI)
"""The kinds of joins in which a condition on one side filters the rows of that side."""


class Side:
    """One side. `plan` gets the columns that the join computes; `columns` are those it had before."""

    def __init__(self, plan: Node, context: Context, taken: set[str], span: Span | None) -> None:
        self.plan, self._context, self._taken = make_storable(plan, span), context, taken
        self.columns = self.plan.columns

    def filter(self, conditions: Sequence[exp.Expr]) -> None:
        """Drop the rows that fail any of these conditions."""
        if conditions:
            self.plan = Filter(self.plan, conjunction(tuple(Scalar(tree) for tree in conditions)))

    def type(self, tree: exp.Expr) -> str:
        return typed_items(self._context.analyzer, self.plan, [("x", tree)])[0].type

    def column(self, tree: exp.Expr, type: str) -> str:
        """The name of a column with that expression's value, as that type."""
        own = self.type(tree)
        if isinstance(tree, exp.Column) and own == type:
            return tree.name
        value = tree.copy() if own == type else cast(tree.copy(), type)
        known = next((item.name for item in self._computed() if item.expression == Scalar(value)), None)
        if known is not None:
            return known
        name = unique("__j", self._taken)
        items = tuple(keep(self.plan, each) for each in self.plan.columns)
        self.plan = Project(self.plan, (*items, Item(name, Scalar(value), type)))
        return name

    def _computed(self) -> tuple[Item, ...]:
        return self.plan.items if isinstance(self.plan, Project) else ()


def key_pair(left: Side, right: Side, compared: Compared) -> KeyPair:
    """An equality as two columns of one type."""
    one, other = _columns(left, right, compared)
    return KeyPair(one, other, compared.op == "<=>")


def comparison(left: Side, right: Side, compared: Compared) -> Comparison:
    """A comparison as two columns of one type."""
    one, other = _columns(left, right, compared)
    return Comparison(one, compared.op, other)


def constant_comparison(left: Side, right: Side, condition: exp.Expr, of_left: bool) -> Comparison:
    """A condition on one side that cannot filter it, as a comparison with TRUE."""
    side, other = (left, right) if of_left else (right, left)
    own, true = side.column(condition, "boolean"), other.column(exp.true(), "boolean")
    return Comparison(own, "=", true) if of_left else Comparison(true, "=", own)


def _columns(left: Side, right: Side, compared: Compared) -> tuple[str, str]:
    types = (left.type(compared.left), right.type(compared.right))
    kind = without_void(types[0] if types[0] == types[1] else _common(left, types, compared))
    span = span_of(compared.tree)
    key = Column(source_text(compared.tree), kind)
    check_type(replace(key, name="__key"), span)
    check_comparable([key], "joining by", span)
    return left.column(compared.left, kind), right.column(compared.right, kind)


def _common(side: Side, types: tuple[str, str], compared: Compared) -> str:
    """The type in which Spark compares the two."""
    one, other = types
    if ("string" in types) != (one == other):
        message = f"{source_text(compared.left)} is {one.upper()}, {source_text(compared.right)} is {other.upper()}"
        hint = f"write CAST({source_text(compared.right)} AS {one.upper()}), or cast the other side"
        raise make("TYPE_MISMATCH", message=message, hint=hint, span=span_of(compared.tree))
    try:
        text = f"coalesce(CAST(NULL AS {one}), CAST(NULL AS {other}))"
        return side._context.analyzer.columns((), [text])[0].type
    except Error:
        message = f"{source_text(compared.left)} is {one.upper()}, {source_text(compared.right)} is {other.upper()}"
        hint = "compare values of one type: write a CAST"
        raise make("TYPE_MISMATCH", message=message, hint=hint, span=span_of(compared.tree)) from None


def join_conditions(kind: str, on: Conditions, left: Side, right: Side, keys: list[Compared]) -> tuple[Comparison, ...]:
    """The conditions beside the keys. Conditions on one side filter that side where the kind of join allows it."""
    rest = [] if kind in FILTERS_LEFT else [constant_comparison(left, right, tree, True) for tree in on.left]
    rest += [] if kind in FILTERS_RIGHT else [constant_comparison(left, right, tree, False) for tree in on.right]
    rest += [comparison(left, right, each) for each in on.compared if each not in keys]
    left.filter(on.left if kind in FILTERS_LEFT else ())
    right.filter(on.right if kind in FILTERS_RIGHT else ())
    return tuple(rest)


def output_columns(kind: str, left: Side, right: Side) -> tuple[str, ...]:
    """The columns that the join emits."""
    return left.columns if kind in (SEMI, ANTI) else (*left.columns, *right.columns)


def filter_pairs(node: Node, on: Conditions) -> Node:
    """The pairs that pass the conditions that cannot be split."""
    return Filter(node, conjunction(tuple(Scalar(tree) for tree in on.mixed))) if on.mixed else node


def by_pairs(kind: str, on: Conditions, left: Side, right: Side, taken: set[str]) -> Node:
    """A join whose condition cannot be split: the pairs that pass, and the rows that are in none."""
    keys = tuple(key_pair(left, right, each) for each in on.equalities)
    conditions = tuple(comparison(left, right, each) for each in on.compared if not each.equality)
    conditions += tuple(constant_comparison(left, right, tree, True) for tree in on.left)
    conditions += tuple(constant_comparison(left, right, tree, False) for tree in on.right)
    columns = (*left.columns, *right.columns)
    pairs: Node = Join(INNER, left.plan, right.plan, keys, conditions, columns)
    pairs = Filter(pairs, conjunction(tuple(Scalar(tree) for tree in on.mixed)))
    if kind in (SEMI, ANTI):
        return _in_pairs(kind, left, pairs, taken)
    unmatched = [
        _pad(_in_pairs(ANTI, side, pairs, taken), pairs)
        for side, kinds in ((left, (LEFT, FULL)), (right, (RIGHT, FULL)))
        if kind in kinds
    ]
    return UnionAll((_nullable(pairs), *unmatched))


def _in_pairs(kind: str, side: Side, pairs: Node, taken: set[str]) -> Node:
    """The rows of a side that are in some pair, or in none."""
    names = {name: unique("__p", taken) for name in side.columns}
    paired = Project(pairs, tuple(keep(pairs, name, names[name]) for name in side.columns))
    keys = tuple(KeyPair(name, names[name], null_safe=True) for name in side.columns)
    return Join(kind, side.plan, paired, keys, (), side.columns)


def _pad(rows: Node, pairs: Node) -> Node:
    """Rows of one side with NULL for the other's columns."""
    return Project(rows, tuple(_column(rows, name, pairs) for name in pairs.columns))


def _column(rows: Node, name: str, pairs: Node) -> Item:
    if name in rows.columns:
        item = keep(rows, name)
        return Item(item.name, item.expression, item.type, True)
    type = next(column.type for column in pairs.schema if column.name == name)
    return Item(name, Scalar(cast(exp.Null(), type)), type, True)


def _nullable(pairs: Node) -> Node:
    return Project(pairs, tuple(_column(pairs, name, pairs) for name in pairs.columns))
