"""Joins of the plan as kernels know them."""

from __future__ import annotations

from tidegate.ir.joins import IntervalJoinSpec, JoinSpec, LookupJoinSpec, OutputColumn
from tidegate.plan import AnyJoin, IntervalJoin, Join, Lookup, Node


def join_spec(node: Join) -> JoinSpec:
    return JoinSpec(
        kind=node.kind,
        keys=node.keys,
        outputs=_outputs(node),
        columns=(node.left.columns, node.right.columns),
        conditions=node.conditions,
        append_only=(node.left.traits.append_only, node.right.traits.append_only),
    )


def lookup_spec(node: Lookup) -> LookupJoinSpec:
    return LookupJoinSpec(
        kind=node.kind,
        keys=node.keys,
        outputs=_outputs(node),
        columns=(node.left.columns, node.right.columns),
        conditions=node.conditions,
    )


def interval_spec(node: IntervalJoin, lines: tuple[str | None, str | None]) -> IntervalJoinSpec:
    """`lines` are the names of the watermarks of both times."""
    types = tuple(_type(side, time) for side, time in zip(node.inputs, node.times, strict=True))
    return IntervalJoinSpec(
        kind=node.kind,
        keys=node.keys,
        outputs=_outputs(node),
        columns=(node.left.columns, node.right.columns),
        times=node.micros,
        lower=node.lower,
        upper=node.upper,
        watermarks=lines,
        watermark_types=(types[0], types[1]),
        delayed=(node.left.traits.delayed, node.right.traits.delayed),
        conditions=node.conditions,
        append_only=(node.left.traits.append_only, node.right.traits.append_only),
        proctime=node.proctime,
        early=node.early,
        correction_id=node.mark,
    )


def _outputs(node: AnyJoin) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(name, int(name not in node.left.columns), name) for name in node.taken)


def _type(side: Node, column: str) -> str:
    return next((each.type for each in side.schema if each.name == column), "timestamp")
