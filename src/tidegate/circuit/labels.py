"""Ops in words, for EXPLAIN and metrics."""

from __future__ import annotations

from functools import singledispatch

from tidegate.kernels.specs import AggregateSpec, DistinctSpec, KernelSpec, SetOpSpec, TableSpec, TopNSpec
from tidegate.plan.words import call_text, top_text


@singledispatch
def label(spec: KernelSpec) -> str:
    raise TypeError(f"{type(spec).__name__} has no label")


@label.register
def _(spec: AggregateSpec) -> str:
    by = f" by {', '.join(spec.keys)}" if spec.keys else ""
    return f"aggregate{by}: {', '.join(call_text(call) for call in spec.calls)}"


@label.register
def _(spec: DistinctSpec) -> str:
    return f"distinct {', '.join(spec.columns)}"


@label.register
def _(spec: SetOpSpec) -> str:
    return f"{spec.kind}{' all' if spec.all else ''} {', '.join(spec.columns)}"


@label.register
def _(spec: TopNSpec) -> str:
    return "top " + top_text(spec.partition, spec.order, spec.limit, spec.offset, spec.function, spec.rank)


@label.register
def _(spec: TableSpec) -> str:
    key = f" by {', '.join(spec.key)}" if spec.key else ""
    return f"table {spec.relation}{key}{' append only' if spec.append_only else ''}"
