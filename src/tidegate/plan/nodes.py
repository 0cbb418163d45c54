"""The logical plan: what a query means, as immutable nodes. A node derives its columns and traits when it is made, and
cannot be made of parts that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from tidegate.core.schema import Column
from tidegate.ir.specs import AggregateCall, Order
from tidegate.kernels import aggregates
from tidegate.plan.leaves import Node
from tidegate.plan.scalar import Scalar, column, conjuncts
from tidegate.traits import Traits, keys, monotone, state, watermark
from tidegate.traits.watermark import LostWatermarks, Watermark, Watermarks


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
class Project(Node):
    """Computes the columns anew."""

    input: Node
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        for item in self.items:
            self._require(item.expression.columns, self.input)
        below = self.input.traits
        key = keys.through_projection(below.key, self.kept)
        lines, lost = self._watermarks()
        schema = tuple(item.schema for item in self.items)
        mark = self.kept.get(below.mark or "")
        clocks = tuple(self.kept[name] for name in below.clocks if name in self.kept)
        traits = Traits(key, below.append_only, lines, lost=lost, delayed=below.delayed, mark=mark, clocks=clocks)
        self._derive(schema, traits)

    def _watermarks(self) -> tuple[Watermarks, LostWatermarks]:
        """Those of expressions that keep order, and what the others lost it by."""
        below, gone = dict(self.input.traits.watermarks), dict(self.input.traits.lost)
        lines, lost = [], []
        for item in self.items:
            line, why = monotone.watermark_of(item.expression.tree, item.type, below)
            why = why or gone.get(item.expression.column or "")
            if line is not None:
                lines.append((item.name, line))
            elif why is not None:
                lost.append((item.name, why))
        return tuple(lines), tuple(lost)

    @property
    def kept(self) -> dict[str, str]:
        """Columns that go through as they are: name below -> (first) name above."""
        found: dict[str, str] = {}
        for item in self.items:
            if item.expression.column is not None:
                found.setdefault(item.expression.column, item.name)
        return found

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return Project(inputs[0], self.items)


@dataclass(frozen=True)
class Filter(Node):
    """The rows for which the condition is true."""

    input: Node
    condition: Scalar

    def __post_init__(self) -> None:
        self._require(self.condition.columns, self.input)
        below = self.input.traits
        lines = self._raised(dict(below.watermarks))
        lost = tuple((column, why) for column, why in below.lost if column not in lines)
        self._derive(self.input.schema, replace(below, watermarks=tuple(lines.items()), lost=lost, state=state.NONE))

    def _raised(self, lines: dict[str, Watermark]) -> dict[str, Watermark]:
        """`col >= monotone` gives the column the watermark of what it is not below."""
        types = {column.name: column.type for column in self.input.schema}
        for part in conjuncts(self.condition):
            for name, bound in bounded_below(part.tree):
                found, _ = monotone.watermark_of(bound, types[name], lines)
                if found is not None and found.type == types[name]:
                    own = lines.get(name)
                    lines = {**lines, name: found if own is None else watermark.greatest([own, found])}
        return lines

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return Filter(inputs[0], self.condition)


@dataclass(frozen=True)
class Aggregate(Node):
    """One row per group: the key columns, then one column per call. Without keys there is exactly one group."""

    input: Node
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    max_groups: int | None = None

    def __post_init__(self) -> None:
        used = [name for call in self.calls for name in (*call.args, call.filter) if name is not None]
        self._require((*self.keys, *used), self.input)
        below = self.input.traits
        by_name = {column.name: column for column in self.input.schema}
        outs = tuple(Column(call.out, call.type, call.func != "count") for call in self.calls)
        lines = watermark.only(below.watermarks, self.keys)
        kept = state.of_aggregate(
            self.keys, any(aggregates.needs_values(call, below.append_only) for call in self.calls)
        )
        schema = (*(by_name[name] for name in self.keys), *outs)
        lost = tuple((column, why) for column, why in below.lost if column in self.keys)
        self._derive(schema, Traits(self.keys, False, lines, kept, lost, below.delayed))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    def __post_init__(self) -> None:
        below = self.input.traits
        key = below.key if below.key is not None else keys.of_rows(self.input.columns)
        traits = replace(below, key=key, state=state.of_distinct())
        self._derive(self.input.schema, traits)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return Distinct(inputs[0])


@dataclass(frozen=True)
class UnionAll(Node):
    """The rows of all inputs, which have the same columns."""

    sides: tuple[Node, ...]

    def __post_init__(self) -> None:
        first = self.sides[0]
        for side in self.sides[1:]:
            if [(column.name, column.type) for column in side.schema] != [(c.name, c.type) for c in first.schema]:
                raise ValueError(f"the sides of a union differ: {first.schema} and {side.schema}")
        lines = watermark.of_union(first.columns, [_by_place(side) for side in self.sides])
        nullable = [any(side.schema[place].nullable for side in self.sides) for place in range(len(first.schema))]
        schema = tuple(replace(each, nullable=flag) for each, flag in zip(first.schema, nullable, strict=True))
        append_only = all(side.traits.append_only for side in self.sides)
        delayed = any(side.traits.delayed for side in self.sides)
        self._derive(schema, Traits(None, append_only, lines, lost=self._lost(dict(lines)), delayed=delayed))

    def _lost(self, lines: dict[str, Watermark]) -> LostWatermarks:
        """A column without a watermark that some side has one for, or lost."""
        found: dict[str, str] = {}
        for place, own in enumerate(self.sides[0].columns):
            for number, side in enumerate(self.sides, start=1):
                name = side.columns[place]
                if own not in lines and side.traits.watermark(name) is None:
                    why = dict(side.traits.lost).get(name)
                    has = any(other.traits.watermark(other.columns[place]) for other in self.sides)
                    if why is not None or has:
                        found.setdefault(own, why or f"side {number} of the union has none")
        return tuple(found.items())

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return UnionAll(inputs)


@dataclass(frozen=True)
class SetOp(Node):
    """EXCEPT or INTERSECT by whole rows; `all` keeps multiplicities."""

    kind: Literal["except", "intersect"]
    all: bool
    left: Node
    right: Node

    def __post_init__(self) -> None:
        left, right = self.left, self.right
        if [(c.name, c.type) for c in left.schema] != [(c.name, c.type) for c in right.schema]:
            raise ValueError(f"the sides of {self.kind} differ: {left.schema} and {right.schema}")
        own = left.traits.key
        key = own if own is not None or self.all else keys.of_rows(left.columns)
        grows = self.kind == "intersect" and left.traits.append_only and right.traits.append_only
        sides = [_by_place(side) for side in (left, right)]
        both = watermark.of_intersection(left.columns, sides)
        lines = left.traits.watermarks if self.kind == "except" else both
        delayed = left.traits.delayed or right.traits.delayed
        self._derive(left.schema, Traits(key, grows, lines, state.of_set_operation(), left.traits.lost, delayed))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return SetOp(self.kind, self.all, *inputs)


@dataclass(frozen=True)
class Rank(Node):
    """Every row with its place in its partition. Only a bounded number of places is maintained: see TopN."""

    input: Node
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    function: str
    out: str

    def __post_init__(self) -> None:
        self._require((*self.partition, *(order.column for order in self.order)), self.input)
        below = self.input.traits
        schema = (*self.input.schema, Column(self.out, "int", False))
        self._derive(schema, replace(below, append_only=False, state="not maintained"))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class TopN(Node):
    """The rows in the places `offset + 1 .. offset + limit` of each partition. `rank` names an added column with the
    place."""

    input: Node
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    function: str = "row_number"
    rank: str | None = None

    def __post_init__(self) -> None:
        self._require((*self.partition, *(order.column for order in self.order)), self.input)
        if self.limit < 0 or self.offset < 0:
            raise ValueError("limit and offset count rows")
        below = self.input.traits
        added = () if self.rank is None else (Column(self.rank, "int", False),)
        key = keys.of_top_n(below.key, self.partition, self.limit, self.function, self.rank)
        kept = state.of_top_n(self.partition, self.offset + self.limit, below.append_only)
        lines = watermark.only(below.watermarks, self.partition)
        lost = tuple((column, _COMES_BACK) for column, _ in below.watermarks if column not in self.partition)
        self._derive((*self.input.schema, *added), Traits(key, False, lines, kept, below.lost + lost, below.delayed))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


_COMES_BACK = "a top-N gives and takes back rows of any age"


def _by_place(side: Node) -> dict[int, Watermark]:
    return {side.columns.index(column): line for column, line in side.traits.watermarks}


def bounded_below(condition: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """(column, expression) for every `column >= expression` that a condition says, in any spelling."""
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
    found = plan.schema[plan.columns.index(name)]
    return Item(as_name or name, column(name), found.type, found.nullable)
