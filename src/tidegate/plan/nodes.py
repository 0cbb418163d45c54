"""The logical plan: what a query means, as immutable nodes. A node derives its columns and traits when it is made, and
cannot be made of parts that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tidegate.catalog.schema import Column
from tidegate.kernels import aggregates
from tidegate.kernels.specs import Call, Order
from tidegate.plan.leaves import Node
from tidegate.plan.scalar import Scalar, column
from tidegate.traits import Traits, keys, state, waterline


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
        kept = self.kept
        key = keys.through_projection(below.key, kept)
        lines = waterline.through_projection(below.waterlines, kept)
        schema = tuple(item.schema for item in self.items)
        self._derive(schema, Traits(key, below.append_only, lines))

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
        self._derive(self.input.schema, replace(self.input.traits, state=state.NONE))

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
    calls: tuple[Call, ...]

    def __post_init__(self) -> None:
        used = [name for call in self.calls for name in (*call.args, call.filter) if name is not None]
        self._require((*self.keys, *used), self.input)
        below = self.input.traits
        by_name = {column.name: column for column in self.input.schema}
        outs = tuple(Column(call.out, call.type, call.func != "count") for call in self.calls)
        lines = waterline.only(below.waterlines, self.keys)
        kept = state.of_aggregate(
            self.keys, any(aggregates.needs_values(call, below.append_only) for call in self.calls)
        )
        schema = (*(by_name[name] for name in self.keys), *outs)
        self._derive(schema, Traits(self.keys, False, lines, kept))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return Aggregate(inputs[0], self.keys, self.calls)


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    def __post_init__(self) -> None:
        below = self.input.traits
        key = below.key if below.key is not None else keys.of_rows(self.input.columns)
        self._derive(self.input.schema, Traits(key, below.append_only, below.waterlines, state.of_distinct()))

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
        lines = waterline.of_union(first.columns, [_by_place(side) for side in self.sides])
        nullable = [any(side.schema[place].nullable for side in self.sides) for place in range(len(first.schema))]
        schema = tuple(replace(each, nullable=flag) for each, flag in zip(first.schema, nullable, strict=True))
        self._derive(schema, Traits(None, all(side.traits.append_only for side in self.sides), lines))

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
        lines = left.traits.waterlines if self.kind == "except" else ()
        self._derive(left.schema, Traits(key, grows, lines, state.of_set_operation()))

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
        self._derive(schema, Traits(below.key, False, below.waterlines, "not maintained"))

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
        self._derive((*self.input.schema, *added), Traits(key, False, (), kept))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


def _by_place(side: Node) -> dict[int, str]:
    return {side.columns.index(column): origin for column, origin in side.traits.waterlines}


def kept(plan: Node, name: str, as_name: str | None = None) -> Item:
    """An item that passes a column through."""
    found = plan.schema[plan.columns.index(name)]
    return Item(as_name or name, column(name), found.type, found.nullable)
