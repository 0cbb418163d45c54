"""The stable names under which the parts of a circuit are stored and hashed.

A name never changes and is never used again for something else; the class behind it may be renamed. A kernel's version
goes up when the meaning of its state changes: its ops then get new ids, and begin with new state.
"""

from __future__ import annotations

from tidegate.circuit import model
from tidegate.core.durations import CalendarInterval
from tidegate.core.records import Codec
from tidegate.core.schema import Column
from tidegate.ir import joins, specs, windows
from tidegate.traits import watermark

KERNEL_VERSIONS = {
    "aggregate": 1,
    "assign_windows": 1,
    "distinct": 1,
    "emit_gate": 1,
    "evicting": 1,
    "gated": 1,
    "hold_back": 1,
    "interval_join": 1,
    "join": 1,
    "lookup_join": 1,
    "set_operation": 1,
    "table": 1,
    "temporal_filter": 1,
    "top_n": 1,
    "windowed": 1,
}

KINDS: dict[str, type] = {
    "aggregate": specs.AggregateSpec,
    "assign_windows": specs.AssignWindowsSpec,
    "distinct": specs.DistinctSpec,
    "emit_gate": specs.GateSpec,
    "evicting": specs.EvictingSpec,
    "gated": specs.GatedAggregateSpec,
    "hold_back": specs.HoldBackSpec,
    "interval_join": joins.IntervalJoinSpec,
    "join": joins.JoinSpec,
    "lookup_join": joins.LookupJoinSpec,
    "set_operation": specs.SetOpSpec,
    "table": specs.TableSpec,
    "temporal_filter": specs.TemporalFilterSpec,
    "top_n": specs.TopNSpec,
    "windowed": specs.WindowAggregateSpec,
    "call": specs.AggregateCall,
    "column": Column,
    "comparison": joins.Comparison,
    "early_fire": joins.EarlyFire,
    "join_column": joins.OutputColumn,
    "key_pair": joins.KeyPair,
    "length": CalendarInterval,
    "order": specs.Order,
    "watermark_test": windows.WatermarkTest,
    "window": windows.WindowSpec,
    "branch": model.Branch,
    "circuit": model.Circuit,
    "filter": model.Filter,
    "ingress_check": model.Ingress,
    "input": model.Input,
    "late_drop": model.RejectedRows,
    "late_filter": model.LateFilter,
    "observed_column": model.ObservedColumn,
    "op": model.Op,
    "origin": model.Origin,
    "output": model.Output,
    "port": model.Port,
    "project": model.Project,
    "visible_watermark": model.PublishedWatermark,
    "watermark_expression": watermark.Expression,
    "watermark_extreme": watermark.Extreme,
    "watermark_of_input": watermark.DeclaredWatermark,
    "watermark_of_window": watermark.WindowEdge,
}

CODEC = Codec(KINDS, KERNEL_VERSIONS)
