"""Windows, gates and temporal filters."""

from __future__ import annotations

from dataclasses import replace

from tidegate import plan as logical
from tidegate.circuit.lower.branches import Branches, hashable
from tidegate.circuit.lower.builder import CircuitBuilder, lower
from tidegate.circuit.lower.rows import EXACT_GROUPS, aggregate_port, aggregate_spec
from tidegate.circuit.model import Port
from tidegate.core.schema import names
from tidegate.ir.specs import (
    AggregateSpec,
    AssignWindowsSpec,
    GatedAggregateSpec,
    GateSpec,
    TemporalFilterSpec,
    WindowAggregateSpec,
)
from tidegate.ir.windows import WINDOW_KINDS, WatermarkTest, WindowSpec
from tidegate.kernels import aggregates
from tidegate.kernels.window_aggregate import on_port
from tidegate.plan import Node
from tidegate.traits.watermark import Expression, Watermark, WindowEdge, walk


@lower.register
def _(node: logical.WindowAggregate, to: CircuitBuilder) -> Branches:
    spec = _window_spec(to, node)
    return to.op(spec, (_window_port(to, node, spec),), node.schema)


@lower.register
def _(node: logical.Window, to: CircuitBuilder) -> Branches:
    spec = AssignWindowsSpec(_with_type(node.window, node.input), names(node.input.schema), node.partition)
    key = node.partition if node.window.kind == "session" else hashable(node.input.schema)
    return to.op(spec, (to.port(node.input, key),), node.schema)


@lower.register
def _(node: logical.Gate, to: CircuitBuilder) -> Branches:
    gate = GateSpec(
        columns=node.columns,
        release=tuple(WatermarkTest(each.column, to.watermark(each.release), each.inclusive) for each in node.closing),
        late=()
        if node.every
        else tuple(WatermarkTest(e.column, to.watermark(e.late), e.inclusive) for e in node.closing),
        every=node.every,
        delayed=node.input.traits.delayed,
    )
    below = node.input
    if isinstance(below, logical.WindowAggregate):
        spec = _window_spec(to, below)
        return to.op(GatedAggregateSpec(spec, gate), (_window_port(to, below, spec),), node.schema)
    if isinstance(below, logical.Aggregate):
        gate = replace(gate, delayed=below.input.traits.delayed)
        port = to.rejecting(aggregate_port(to, below), below.input, gate.late)
        return to.op(GatedAggregateSpec(aggregate_spec(to, below), gate), (port,), node.schema)
    port = to.rejecting(to.port(below, hashable(below.schema)), below, gate.late)
    if port.rejected is not None and isinstance(below, logical.Window) and WINDOW_KINDS[below.window.kind].overlapping:
        port = replace(port, rejected=replace(port.rejected, windows=_with_type(below.window, below.input)))
    return to.op(gate, (port,), node.schema)


@lower.register
def _(node: logical.TemporalFilter, to: CircuitBuilder) -> Branches:
    spec = TemporalFilterSpec(node.columns, node.since, node.until)
    return to.op(spec, (to.port(node.input, hashable(node.schema)),), node.schema)


def _window_spec(to: CircuitBuilder, node: logical.WindowAggregate) -> WindowAggregateSpec:
    window, below = _with_type(node.window, node.input), node.input.traits
    keys = (*node.keys, window.start, window.end)
    aggregate = AggregateSpec(keys, node.calls, below.append_only, scalar=False, max_groups=node.max_groups)
    watermark, lateness = _lagging(node.watermark, node.lateness)
    name = None if watermark is None else to.watermark(watermark)
    return WindowAggregateSpec(window, aggregate, name, lateness, below.delayed)


def _lagging(watermark: Watermark | None, lateness: int) -> tuple[Watermark | None, int]:
    """A watermark and what the kernel subtracts from it. Where it is computed, ALLOWED LATENESS is subtracted from the
    watermarks of the inputs before that instead: the start of a window is not that of a time so much earlier."""
    if watermark is None or not lateness:
        return watermark, lateness
    computed = any(isinstance(each, Expression | WindowEdge) for each in walk([watermark]))
    lagging = watermark.lag_by(lateness) if computed else None
    return (watermark, lateness) if lagging is None else (lagging, 0)


def _window_port(to: CircuitBuilder, node: logical.WindowAggregate, spec: WindowAggregateSpec) -> Port:
    key = () if node.max_groups is not None and node.max_groups <= EXACT_GROUPS else node.keys
    rows = on_port(spec)
    port = replace(to.port(node.input, key), hashes=aggregates.hashes(rows), ordered=aggregates.ordered(rows))
    late = WatermarkTest(node.window.time, spec.watermark or "")
    return to.rejecting(port, node.input, (late,))


def _with_type(window: WindowSpec, input: Node) -> WindowSpec:
    """The window with the type of its time."""
    return replace(window, type=next(column.type for column in input.schema if column.name == window.time))
