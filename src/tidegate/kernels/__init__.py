"""The stateful operators, on Polars frames and without Spark. `make` returns the kernel of a spec."""

from __future__ import annotations

from tidegate.ir.joins import IntervalJoinSpec, JoinSpec, LookupJoinSpec
from tidegate.ir.specs import (
    AggregateSpec,
    AssignWindowsSpec,
    DistinctSpec,
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
from tidegate.kernels.aggregate import Aggregate
from tidegate.kernels.api import Kernel
from tidegate.kernels.assign_windows import make_assign
from tidegate.kernels.gate import EmitOnClose, Gate, GatedAggregate, closes_once
from tidegate.kernels.hold_back import HoldBack
from tidegate.kernels.joins.incremental import Join
from tidegate.kernels.joins.interval import IntervalJoin
from tidegate.kernels.joins.lookup import Lookup
from tidegate.kernels.sets import Distinct, SetOp
from tidegate.kernels.table import make_table
from tidegate.kernels.temporal_filter import TemporalFilter
from tidegate.kernels.top_n import TopN
from tidegate.kernels.window_aggregate import make_windowed

__all__ = ["make"]


def make(spec: KernelSpec) -> Kernel:
    """The kernel that implements `spec`."""
    match spec:
        case AggregateSpec():
            return Aggregate(spec)
        case DistinctSpec():
            return Distinct(spec)
        case SetOpSpec():
            return SetOp(spec)
        case TopNSpec():
            return TopN(spec)
        case TableSpec():
            return make_table(spec)
        case WindowAggregateSpec():
            return make_windowed(spec)
        case AssignWindowsSpec():
            return make_assign(spec)
        case HoldBackSpec():
            return HoldBack(spec)
        case TemporalFilterSpec():
            return TemporalFilter(spec)
        case GateSpec():
            return Gate(spec)
        case GatedAggregateSpec():
            return EmitOnClose(spec) if closes_once(spec) else GatedAggregate(spec)
        case JoinSpec():
            return Join(spec)
        case LookupJoinSpec():
            return Lookup(spec)
        case IntervalJoinSpec():
            return IntervalJoin(spec)
