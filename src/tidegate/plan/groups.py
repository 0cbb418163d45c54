"""Nodes that compare rows with each other: aggregates, DISTINCT, set operations, ranks and top-N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tidegate.core.schema import Column
from tidegate.ir.specs import AggregateCall, Order
from tidegate.kernels import aggregates
from tidegate.plan.leaves import Binary, Node, Unary
from tidegate.traits import Traits, keys, state, watermark
from tidegate.traits.watermark import LostWatermarks, Watermark

_ANY_AGE = "a top-N gives and takes back rows of any age"


@dataclass(frozen=True)
class Aggregate(Unary):
    """One row per group: the key columns, then one column per call. Without keys there is exactly one group."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    max_groups: int | None = None

    def __post_init__(self) -> None:
        used = [name for call in self.calls for name in (*call.args, call.filter) if name is not None]
        self._require((*self.keys, *used), self.input)
        below = self.input.traits
        by_name = {column.name: column for column in self.input.schema}
        outs = tuple(Column(call.out, call.type, call.func != "count") for call in self.calls)
        watermarks = watermark.only(below.watermarks, self.keys)
        stored = state.of_aggregate(
            self.keys, any(aggregates.needs_values(call, below.append_only) for call in self.calls)
        )
        stored = state.until(stored, watermark.settling(below.watermarks, self.keys))
        schema = (*(by_name[name] for name in self.keys), *outs)
        lost = tuple((column, why) for column, why in below.lost if column in self.keys)
        self._derive(schema, Traits(self.keys, False, watermarks, stored, lost, below.delayed))


@dataclass(frozen=True)
class Distinct(Unary):
    """Each row once."""

    def __post_init__(self) -> None:
        below = self.input.traits
        key = below.key if below.key is not None else keys.of_rows(self.input.columns)
        stored = state.until(state.of_distinct(), watermark.settling(below.watermarks, self.input.columns))
        traits = replace(below, key=key, state=stored)
        self._derive(self.input.schema, traits)


@dataclass(frozen=True)
class UnionAll(Node):
    """The rows of all inputs, which have the same columns."""

    sides: tuple[Node, ...]

    def __post_init__(self) -> None:
        first = self.sides[0]
        for side in self.sides[1:]:
            if [(column.name, column.type) for column in side.schema] != [(c.name, c.type) for c in first.schema]:
                raise ValueError(f"the sides of a union differ: {first.schema} and {side.schema}")
        watermarks = watermark.of_union(first.columns, [_by_position(side) for side in self.sides])
        nullable = [any(side.schema[position].nullable for side in self.sides) for position in range(len(first.schema))]
        schema = tuple(replace(each, nullable=flag) for each, flag in zip(first.schema, nullable, strict=True))
        append_only = all(side.traits.append_only for side in self.sides)
        delayed = any(side.traits.delayed for side in self.sides)
        lost = _lost_by_position(self.sides, dict(watermarks))
        self._derive(schema, Traits(None, append_only, watermarks, lost=lost, delayed=delayed))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return UnionAll(inputs)


@dataclass(frozen=True)
class SetOp(Binary):
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
        # A new row of either side brings back, or takes away, one of any age that the other side has had for long.
        least = watermark.of_union(left.columns, [_by_position(side) for side in (left, right)])
        watermarks = watermark.enforce(least, False)
        lost = _lost_by_position((left, right), dict(watermarks))
        delayed = left.traits.delayed or right.traits.delayed
        self._derive(left.schema, Traits(key, grows, watermarks, state.of_set_operation(), lost, delayed))


@dataclass(frozen=True)
class Rank(Unary):
    """Every row with its rank in its partition. Only ranks up to a bound can be maintained: see TopN."""

    partition: tuple[str, ...]
    order: tuple[Order, ...]
    function: str
    out: str

    def __post_init__(self) -> None:
        self._require((*self.partition, *(order.column for order in self.order)), self.input)
        below = self.input.traits
        schema = (*self.input.schema, Column(self.out, "int", False))
        self._derive(schema, replace(below, append_only=False, state="not maintained"))


@dataclass(frozen=True)
class TopN(Unary):
    """The rows with ranks `offset + 1 .. offset + limit` in each partition. `rank` names an added column with the
    rank."""

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
        stored = state.of_top_n(self.partition, self.offset + self.limit, below.append_only)
        stored = state.until(stored, watermark.settling(below.watermarks, self.partition))
        watermarks = watermark.only(below.watermarks, self.partition)
        lost = tuple((column, _ANY_AGE) for column, _ in below.watermarks if column not in self.partition)
        self._derive(
            (*self.input.schema, *added), Traits(key, False, watermarks, stored, below.lost + lost, below.delayed)
        )


def _by_position(side: Node) -> dict[int, Watermark]:
    return {side.columns.index(column): each for column, each in side.traits.watermarks}


def _lost_by_position(sides: Sequence[Node], watermarks: Mapping[str, Watermark]) -> LostWatermarks:
    """Columns of a set operation without a watermark for which some side has one, or lost it."""
    lost: dict[str, str] = {}
    for position, own in enumerate(sides[0].columns):
        for number, side in enumerate(sides, start=1):
            name = side.columns[position]
            if own not in watermarks and side.traits.watermark(name) is None:
                why = dict(side.traits.lost).get(name)
                has = any(other.traits.watermark(other.columns[position]) for other in sides)
                if why is not None or has:
                    lost.setdefault(own, why or f"side {number} of the set operation has none")
    return tuple(lost.items())
