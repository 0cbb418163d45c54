"""The logical plan: nodes, walking, printing."""

from tidegate.plan.gates import Closing, Gate
from tidegate.plan.groups import Aggregate, Distinct, Rank, SetOp, TopN, UnionAll
from tidegate.plan.joins import AnyJoin, IntervalJoin, Join, Lookup
from tidegate.plan.leaves import Node, Scan, View, declared_watermarks, rewrite_up, walk
from tidegate.plan.rows import Filter, Item, Project, keep
from tidegate.plan.scalar import Scalar, column, conjunction, conjuncts
from tidegate.plan.time import Clocks, IngressCheck, TemporalFilter, Window, WindowAggregate

__all__ = [
    "Aggregate",
    "AnyJoin",
    "Clocks",
    "Closing",
    "Distinct",
    "Filter",
    "Gate",
    "IngressCheck",
    "IntervalJoin",
    "Item",
    "Join",
    "Lookup",
    "Node",
    "Project",
    "Rank",
    "Scalar",
    "Scan",
    "SetOp",
    "TemporalFilter",
    "TopN",
    "UnionAll",
    "View",
    "Window",
    "WindowAggregate",
    "column",
    "conjunction",
    "conjuncts",
    "declared_watermarks",
    "keep",
    "rewrite_up",
    "walk",
]
