"""Joins -> ops."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from tidegate import plan as logical
from tidegate.circuit.lower.branches import Branches, hashable
from tidegate.circuit.lower.builder import CircuitBuilder, lower
from tidegate.circuit.model import Port
from tidegate.ir.joins import Comparison, IntervalJoinSpec, JoinSpec, KeyPair, LookupJoinSpec, OutputColumn
from tidegate.ir.specs import EvictingSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.kernels.joins.pairs import needed_columns as stored_columns
from tidegate.kernels.top_n import ROW_HASH
from tidegate.plan import AnyJoin, IntervalJoin, Join, Lookup, Node
from tidegate.traits.watermark import Watermark


@lower.register
def _(node: logical.Join, to: CircuitBuilder) -> Branches:
    spec = join_spec(node)
    types = {column.name: column for side in node.inputs for column in side.schema}
    ports = tuple(
        replace(port, hashes=((ROW_HASH, hashable(tuple(types[name] for name in columns))),))
        for port, columns in zip(_sides(to, node), stored_columns(spec), strict=True)
    )
    over = _evicting(to, spec, node)
    if isinstance(over, EvictingSpec) and over.late:
        ports = tuple(to.recording(*each) for each in zip(ports, node.inputs, over.late, strict=True))
    return to.op(over, ports, node.schema)


def _evicting(to: CircuitBuilder, spec: JoinSpec, node: Join) -> JoinSpec | EvictingSpec:
    """The join with eviction, if something bounds its state."""
    bounds = node.bounds
    if bounds is None:
        return spec
    columns = (bounds.pair.left, bounds.pair.right)
    evict = [_tests(to, *each) for each in zip(columns, bounds.watermarks, strict=True)]
    own = [side.traits.watermark(name) for side, name in zip(node.inputs, columns, strict=True)]
    if not any(bounds.late):
        return EvictingSpec(spec, columns, tuple(evict))
    sides = zip(columns, own, bounds.late, strict=True)
    late = [_tests(to, name, each if rejects else None) for name, each, rejects in sides]
    delayed = tuple(side.traits.delayed for side in node.inputs)
    return EvictingSpec(spec, columns, tuple(evict), tuple(late), delayed)


def _tests(to: CircuitBuilder, column: str, watermark: Watermark | None) -> tuple[WatermarkTest, ...]:
    return () if watermark is None else (WatermarkTest(column, to.watermark(watermark)),)


@lower.register
def _(node: logical.Lookup, to: CircuitBuilder) -> Branches:
    return to.op(lookup_spec(node), _sides(to, node), node.schema)


@lower.register
def _(node: logical.IntervalJoin, to: CircuitBuilder) -> Branches:
    watermarks = tuple(None if watermark is None else to.watermark(watermark) for watermark in node.watermarks)
    ports = tuple(
        port if watermark is None else to.rejecting(port, side, (WatermarkTest(time, watermark),))
        for port, side, time, watermark in zip(_sides(to, node), node.inputs, node.times, watermarks, strict=True)
    )
    return to.op(interval_spec(node, (watermarks[0], watermarks[1])), ports, node.schema)


def _sides(to: CircuitBuilder, node: logical.AnyJoin) -> tuple[Port, ...]:
    keys = tuple(pair.left for pair in node.keys), tuple(pair.right for pair in node.keys)
    return tuple(to.port(side, key) for side, key in zip(node.inputs, keys, strict=True))


def join_spec(node: Join) -> JoinSpec:
    return JoinSpec(**_shared(node), append_only=_append_only(node))


def lookup_spec(node: Lookup) -> LookupJoinSpec:
    return LookupJoinSpec(**_shared(node))


def interval_spec(node: IntervalJoin, watermarks: tuple[str | None, str | None]) -> IntervalJoinSpec:
    """`watermarks` are the names of the watermarks of both times."""
    types = tuple(_type(side, time) for side, time in zip(node.inputs, node.times, strict=True))
    return IntervalJoinSpec(
        **_shared(node),
        times=node.micros,
        lower=node.lower,
        upper=node.upper,
        watermarks=watermarks,
        watermark_types=(types[0], types[1]),
        delayed=(node.left.traits.delayed, node.right.traits.delayed),
        append_only=_append_only(node),
        proctime=node.proctime,
        early=node.early,
        correction_id=node.mark,
    )


class _Shared(TypedDict):
    """The fields that the specs of all joins have."""

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[OutputColumn, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    conditions: tuple[Comparison, ...]


def _shared(node: AnyJoin) -> _Shared:
    return _Shared(
        kind=node.kind,
        keys=node.keys,
        outputs=_outputs(node),
        columns=(node.left.columns, node.right.columns),
        conditions=node.conditions,
    )


def _append_only(node: AnyJoin) -> tuple[bool, bool]:
    return node.left.traits.append_only, node.right.traits.append_only


def _outputs(node: AnyJoin) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(name, int(name not in node.left.columns), name) for name in node.outputs)


def _type(side: Node, column: str) -> str:
    return next((each.type for each in side.schema if each.name == column), "timestamp")
