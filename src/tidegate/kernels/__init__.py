"""The stateful operators, on Polars frames and without Spark. `make` returns the kernel of a spec."""

from __future__ import annotations

from tidegate.ir import joins as join_specs
from tidegate.ir import specs
from tidegate.kernels.aggregate import Aggregate
from tidegate.kernels.api import Kernel
from tidegate.kernels.assign_windows import make_assign
from tidegate.kernels.evicting import Evicting
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


def make(spec: specs.KernelSpec) -> Kernel:
    """The kernel that implements `spec`."""
    match spec:
        case specs.AggregateSpec():
            return Aggregate(spec)
        case specs.EvictingSpec():
            return Evicting(spec, make(spec.inner))
        case specs.DistinctSpec():
            return Distinct(spec)
        case specs.SetOpSpec():
            return SetOp(spec)
        case specs.TopNSpec():
            return TopN(spec)
        case specs.TableSpec():
            return make_table(spec)
        case specs.WindowAggregateSpec():
            return make_windowed(spec)
        case specs.AssignWindowsSpec():
            return make_assign(spec)
        case specs.HoldBackSpec():
            return HoldBack(spec)
        case specs.TemporalFilterSpec():
            return TemporalFilter(spec)
        case specs.GateSpec():
            return Gate(spec)
        case specs.GatedAggregateSpec():
            return EmitOnClose(spec) if closes_once(spec) else GatedAggregate(spec)
        case join_specs.JoinSpec():
            return Join(spec)
        case join_specs.LookupJoinSpec():
            return Lookup(spec)
        case join_specs.IntervalJoinSpec():
            return IntervalJoin(spec)
