"""Labels of ops, for EXPLAIN and metrics."""

from __future__ import annotations

from functools import singledispatch

from tidegate.core.durations import render_micros
from tidegate.ir.joins import IntervalJoinSpec, JoinSpec, LookupJoinSpec
from tidegate.ir.specs import (
    AggregateSpec,
    AssignWindowsSpec,
    DistinctSpec,
    EvictingSpec,
    GatedAggregateSpec,
    GateSpec,
    HoldBackSpec,
    KernelSpec,
    SetOpSpec,
    TableSpec,
    TemporalFilterSpec,
    TopNSpec,
    WindowAggregateSpec,
)
from tidegate.ir.windows import WatermarkTest
from tidegate.plan.labels import call_text, join_text, top_text, window_text


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


@label.register
def _(spec: WindowAggregateSpec) -> str:
    keys = [key for key in spec.aggregate.keys if key not in (spec.window.start, spec.window.end)]
    by = ", ".join([*keys, window_text(spec.window)])
    late = f", {render_micros(spec.lateness)} late" if spec.lateness else ""
    return f"windows by {by}{late}: {', '.join(call_text(call) for call in spec.aggregate.calls)}"


@label.register
def _(spec: AssignWindowsSpec) -> str:
    per = f" per {', '.join(spec.partition)}" if spec.partition else ""
    return f"assign {window_text(spec.window)}{per}"


@label.register
def _(spec: EvictingSpec) -> str:
    """As without eviction: metrics of an op keep their name."""
    late = [_test(test) for tests in spec.late for test in tests]
    return f"{label(spec.inner)}{', late if ' if late else ''}{' or '.join(late)}"


@label.register
def _(spec: GateSpec) -> str:
    every = f" every {render_micros(spec.every)}" if spec.every else ""
    until = f" until {' and '.join(_test(test) for test in spec.release)}" if spec.release else ""
    return f"gate{every}{until}"


@label.register
def _(spec: GatedAggregateSpec) -> str:
    return f"{label(spec.inner)}; {label(spec.gate)}"


@label.register
def _(spec: HoldBackSpec) -> str:
    return f"hold back until {' and '.join(_test(test) for test in spec.tests)}"


@label.register
def _(spec: TemporalFilterSpec) -> str:
    return f"temporal filter {spec.since or 'ever'} to {spec.until or 'ever'}"


@label.register
def _(spec: JoinSpec) -> str:
    return f"join {join_text(spec.kind, spec.keys, spec.conditions)}"


@label.register
def _(spec: LookupJoinSpec) -> str:
    return f"lookup {join_text(spec.kind, spec.keys, spec.conditions)}"


@label.register
def _(spec: IntervalJoinSpec) -> str:
    left, right = spec.times
    bounds = f"{right} - {left} in {render_micros(spec.lower)}..{render_micros(spec.upper)}"
    early = f", early after {render_micros(spec.early.delay)} of {spec.early.mode}" if spec.early else ""
    return f"interval join {join_text(spec.kind, spec.keys, spec.conditions)}, {bounds}{early}"


def _test(test: WatermarkTest) -> str:
    return f"{test.column} {'<=' if test.inclusive else '<'} {test.watermark}"
