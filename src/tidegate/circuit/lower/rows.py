"""Projections, filters, aggregates, set operations and top-N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate import plan as logical
from tidegate.circuit.lower.branches import Branches, add_step, hashable
from tidegate.circuit.lower.builder import CircuitBuilder, lower
from tidegate.circuit.model import Filter, Port, Project
from tidegate.core.quoting import identifier
from tidegate.ir.specs import AggregateSpec, DistinctSpec, EvictingSpec, SetOpSpec, TopNSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels import aggregates
from tidegate.kernels.top_n import ROW_HASH
from tidegate.plan import Node
from tidegate.traits.watermark import least, strict_part

Rows = AggregateSpec | DistinctSpec | SetOpSpec | TopNSpec

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
    spec = aggregate_spec(to, node)
    over = spec.evict_before or node.max_groups is not None
    return to.op(spec if over else _evicting(to, spec, node, node.keys), (aggregate_port(to, node),), node.schema)


def aggregate_spec(to: CircuitBuilder, node: logical.Aggregate) -> AggregateSpec:
    below, cap = node.input.traits, node.max_groups
    evict = _eviction(to, node.input, node.keys) if cap is None else ()
    return AggregateSpec(node.keys, node.calls, below.append_only, not node.keys, cap, evict, below.delayed)


def _eviction(to: CircuitBuilder, below: Node, columns: tuple[str, ...]) -> tuple[WatermarkTest, ...]:
    """Eviction test: groups below this strict watermark can never change."""
    known = [(name, below.traits.watermark(name)) for name in columns]
    watermarks = [
        (name, strict) for name, each in known if each is not None and (strict := strict_part(each)) is not None
    ]
    return tuple(WatermarkTest(name, to.watermark(watermark)) for name, watermark in watermarks[:1])


def _evicting(to: CircuitBuilder, spec: Rows, node: Node, columns: Sequence[str]) -> Rows | EvictingSpec:
    """The spec of an operator in which rows with equal `columns` meet, with eviction by the first of them that settles
    on every side. Columns of several sides correspond by position."""
    for name in columns:
        names = tuple(side.columns[node.inputs[0].columns.index(name)] for side in node.inputs)
        settled = [
            each
            for own, side in zip(names, node.inputs, strict=True)
            if (each := side.traits.watermark(own)) is not None and each.settled
        ]
        if len(settled) == len(names):
            bound = to.watermark(least(settled))
            return EvictingSpec(spec, names, tuple((WatermarkTest(own, bound),) for own in names))
    return spec


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
    over = spec if evict else _evicting(to, spec, node, node.columns)
    return to.op(over, (to.port(node.input, node.columns),), node.schema)


@lower.register
def _(node: logical.SetOp, to: CircuitBuilder) -> Branches:
    spec = SetOpSpec(node.kind, node.all, node.columns)
    ports = tuple(to.port(side, node.columns) for side in node.inputs)
    return to.op(_evicting(to, spec, node, node.columns), ports, node.schema)


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
        append_only=node.input.traits.append_only,
    )
    hashes = ((ROW_HASH, hashable(node.input.schema)),)
    port = replace(to.port(node.input, node.partition), hashes=hashes)
    return to.op(_evicting(to, spec, node, node.partition), (port,), node.schema)
