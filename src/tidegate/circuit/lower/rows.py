"""Projections, filters, aggregates, set operations and top-N."""

from __future__ import annotations

from dataclasses import replace

from tidegate import plan as logical
from tidegate.circuit.lower.branches import Branches, add_step, hashable
from tidegate.circuit.lower.builder import CircuitBuilder, lower
from tidegate.circuit.model import Filter, Port, Project
from tidegate.core.quoting import identifier
from tidegate.ir.specs import AggregateSpec, DistinctSpec, SetOpSpec, TopNSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels import aggregates
from tidegate.kernels.top_n import ROW_HASH
from tidegate.plan import Node

EXACT_GROUPS = 10_000
"""Up to this many groups a cap is exact: they are all in one bucket."""


@lower.register
def _(node: logical.Project, to: CircuitBuilder) -> Branches:
    step = Project(tuple((item.name, item.expression.sql) for item in node.items))
    return tuple(add_step(branch, step, node.schema) for branch in to.branches(node.input))


@lower.register
def _(node: logical.Clocks, to: CircuitBuilder) -> Branches:
    own = [(name, identifier(name)) for name in node.input.columns]
    step = Project((*own, *((name, "CAST(NULL AS TIMESTAMP)") for name in node.names)))
    return tuple(add_step(branch, step, node.schema) for branch in to.branches(node.input))


@lower.register
def _(node: logical.Filter, to: CircuitBuilder) -> Branches:
    step = Filter(node.condition.sql)
    return tuple(add_step(branch, step, branch.columns) for branch in to.branches(node.input))


@lower.register
def _(node: logical.UnionAll, to: CircuitBuilder) -> Branches:
    return tuple(branch for side in node.sides for branch in to.branches(side))


@lower.register
def _(node: logical.Aggregate, to: CircuitBuilder) -> Branches:
    return to.op(aggregate_spec(to, node), (aggregate_port(to, node),), node.schema)


def aggregate_spec(to: CircuitBuilder, node: logical.Aggregate) -> AggregateSpec:
    below, cap = node.input.traits, node.max_groups
    evict = _eviction(to, node.input, node.keys) if cap is None else ()
    return AggregateSpec(node.keys, node.calls, below.append_only, not node.keys, cap, evict, below.delayed)


def _eviction(to: CircuitBuilder, below: Node, columns: tuple[str, ...]) -> tuple[WatermarkTest, ...]:
    """Eviction test: groups below this strict watermark can never change."""
    watermarks = [
        (name, watermark)
        for name in columns
        if (watermark := below.traits.watermark(name)) is not None and watermark.strict
    ]
    return tuple(WatermarkTest(name, to.watermark(watermark)) for name, watermark in watermarks[:1])


def aggregate_port(to: CircuitBuilder, node: logical.Aggregate) -> Port:
    spec = aggregate_spec(to, node)
    key = () if node.max_groups is not None and node.max_groups <= EXACT_GROUPS else node.keys
    port = replace(to.port(node.input, key), hashes=aggregates.hashes(spec), ordered=aggregates.ordered(spec))
    return port if node.max_groups is None else to.rejecting(port, node.input, (WatermarkTest("", ""),))


@lower.register
def _(node: logical.Distinct, to: CircuitBuilder) -> Branches:
    below = node.input.traits
    evict = _eviction(to, node.input, node.columns)
    spec = DistinctSpec(node.columns, below.append_only, evict, below.delayed)
    return to.op(spec, (to.port(node.input, node.columns),), node.schema)


@lower.register
def _(node: logical.SetOp, to: CircuitBuilder) -> Branches:
    spec = SetOpSpec(node.kind, node.all, node.columns)
    ports = tuple(to.port(side, node.columns) for side in node.inputs)
    return to.op(spec, ports, node.schema)


@lower.register
def _(node: logical.TopN, to: CircuitBuilder) -> Branches:
    spec = TopNSpec(
        columns=node.input.columns,
        partition=node.partition,
        order=node.order,
        limit=node.limit,
        offset=node.offset,
        function=node.function,
        rank=node.rank,
    )
    hashes = ((ROW_HASH, hashable(node.input.schema)),)
    port = replace(to.port(node.input, node.partition), hashes=hashes)
    return to.op(spec, (port,), node.schema)
