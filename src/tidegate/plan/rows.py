"""Nodes that work row by row: projections and filters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.core.schema import Column
from tidegate.plan.leaves import Node, Unary
from tidegate.plan.scalar import Scalar, column, conjuncts
from tidegate.traits import Traits, keys, monotone, state
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks, greatest


@dataclass(frozen=True)
class Item:
    """A column of a projection: its name, expression and type."""

    name: str
    expression: Scalar
    type: str
    nullable: bool = True

    @property
    def schema(self) -> Column:
        return Column(self.name, self.type, self.nullable)


@dataclass(frozen=True)
class Project(Unary):
    """Replaces the columns by expressions over them."""

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        for item in self.items:
            self._require(item.expression.columns, self.input)
        below = self.input.traits
        key = keys.through_projection(below.key, self.renames)
        watermarks, lost = self._watermarks()
        schema = tuple(item.schema for item in self.items)
        mark = self.renames.get(below.mark or "")
        clocks = tuple(self.renames[name] for name in below.clocks if name in self.renames)
        traits = Traits(key, below.append_only, watermarks, lost=lost, delayed=below.delayed, mark=mark, clocks=clocks)
        self._derive(schema, traits)

    def _watermarks(self) -> tuple[Watermarks, LostWatermarks]:
        """The watermarks of expressions that keep order, and for the others what lost them."""
        below, lost_below = dict(self.input.traits.watermarks), dict(self.input.traits.lost)
        watermarks, lost = [], []
        for item in self.items:
            watermark, why = monotone.watermark_of(item.expression.tree, item.type, below)
            why = why or lost_below.get(item.expression.column or "")
            if watermark is not None:
                watermarks.append((item.name, watermark))
            elif why is not None:
                lost.append((item.name, why))
        return tuple(watermarks), tuple(lost)

    @property
    def renames(self) -> dict[str, str]:
        """Columns that pass unchanged: name below -> (first) name above."""
        names: dict[str, str] = {}
        for item in self.items:
            if item.expression.column is not None:
                names.setdefault(item.expression.column, item.name)
        return names


@dataclass(frozen=True)
class Filter(Unary):
    """The rows for which the condition is true."""

    condition: Scalar

    def __post_init__(self) -> None:
        self._require(self.condition.columns, self.input)
        below = self.input.traits
        watermarks = self._raise_watermarks(dict(below.watermarks))
        lost = tuple((column, why) for column, why in below.lost if column not in watermarks)
        self._derive(
            self.input.schema, replace(below, watermarks=tuple(watermarks.items()), lost=lost, state=state.NONE)
        )

    def _raise_watermarks(self, watermarks: dict[str, Watermark]) -> dict[str, Watermark]:
        """`column >= expression` gives the column the watermark of the expression."""
        types = {column.name: column.type for column in self.input.schema}
        for part in conjuncts(self.condition):
            for name, bound in bounded_below(part.tree):
                raised, _ = monotone.watermark_of(bound, types[name], watermarks)
                if raised is not None and raised.type == types[name]:
                    own = watermarks.get(name)
                    watermarks = {**watermarks, name: raised if own is None else greatest([own, raised])}
        return watermarks


def bounded_below(condition: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """(column, expression) for every `column >= expression` that a condition implies, in any spelling."""
    tree = condition.unnest()
    if isinstance(tree, exp.Between):
        pairs = [(tree.this, tree.args["low"])]
    elif isinstance(tree, exp.GT | exp.GTE | exp.EQ):
        pairs = [(tree.left, tree.right)]
    elif isinstance(tree, exp.LT | exp.LTE):
        pairs = [(tree.right, tree.left)]
    else:
        return []
    if isinstance(tree, exp.EQ):
        pairs.append((tree.right, tree.left))
    return [(left.unnest().name, right) for left, right in pairs if isinstance(left.unnest(), exp.Column)]


def keep(plan: Node, name: str, as_name: str | None = None) -> Item:
    """An item that passes a column through."""
    own = plan.schema[plan.columns.index(name)]
    return Item(as_name or name, column(name), own.type, own.nullable)
