"""ROW_NUMBER, RANK and DENSE_RANK: each becomes a Rank below the projection."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.context import Analyzer
from tidegate.bind.grouping import same_text
from tidegate.bind.items import order_of
from tidegate.ir.specs import Order
from tidegate.plan import Node, Project, Rank, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import call


def rank(analyzer: Analyzer, plan: Node, trees: Sequence[exp.Expr]) -> tuple[Node, tuple[exp.Expr, ...]]:
    """Adds a column per different window, and puts it into the expressions."""
    windows: dict[str, exp.Window] = {}
    for tree in trees:
        for node in tree.find_all(exp.Window):
            windows.setdefault(same_text(node), node)
    places: dict[str, str] = {}
    for number, (text, window) in enumerate(windows.items()):
        places[text] = f"__r{number}"
        plan = _add_rank(analyzer, plan, window, places[text])
    return plan, tuple(_replace_parts(tree, places) for tree in trees)


def _add_rank(analyzer: Analyzer, plan: Node, window: exp.Window, out: str) -> Node:
    columns = Columns(analyzer, plan, out)
    partition = tuple(columns.name(tree) for tree in window.args.get("partition_by") or ())
    order = window.args.get("order")
    keys = tuple(columns.order(ordered) for ordered in (order.expressions if order else ()))
    found = call(window.this)
    return Rank(columns.plan(), partition, keys, found.name if found else "", out)


class Columns:
    """Expressions as columns of a relation: plain ones are there, others are added under names of their own."""

    def __init__(self, analyzer: Analyzer, plan: Node, prefix: str) -> None:
        self._analyzer = analyzer
        self._plan = plan
        self._prefix = prefix
        self._added: dict[str, tuple[str, exp.Expr]] = {}

    def name(self, tree: exp.Expr) -> str:
        tree = tree.unnest()
        if isinstance(tree, exp.Column):
            return tree.name
        fresh = (f"{self._prefix}_{len(self._added)}", tree)
        return self._added.setdefault(same_text(tree), fresh)[0]

    def order(self, ordered: exp.Expr) -> Order:
        return order_of(ordered, self.name(ordered.this))

    def plan(self) -> Node:
        """The relation with the added columns."""
        if not self._added:
            return self._plan
        passed = tuple(keep(self._plan, name) for name in self._plan.columns)
        return Project(self._plan, passed + typing.items(self._analyzer, self._plan, list(self._added.values())))


def _replace_parts(tree: exp.Expr, places: dict[str, str]) -> exp.Expr:
    def replace(node: exp.Expr) -> exp.Expr:
        return column_tree(places[same_text(node)]) if isinstance(node, exp.Window) else node

    return tree.transform(replace)
