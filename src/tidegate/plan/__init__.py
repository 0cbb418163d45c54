"""The logical plan: nodes, walking, printing."""

from tidegate.plan.joins import AnyJoin, IntervalJoin, Join, Lookup
from tidegate.plan.leaves import Node, Scan, View, frontiers
from tidegate.plan.nodes import Aggregate, Distinct, Filter, Item, Project, Rank, SetOp, TopN, UnionAll, kept
from tidegate.plan.scalar import Scalar, column, conjunction, conjuncts
from tidegate.plan.time import Clocks, Closing, Door, During, Gate, Window, WindowAggregate
from tidegate.plan.walk import rewrite_up, walk

__all__ = [
    "Aggregate",
    "AnyJoin",
    "Clocks",
    "Closing",
    "Distinct",
    "Door",
    "During",
    "Filter",
    "Gate",
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
    "TopN",
    "UnionAll",
    "View",
    "Window",
    "WindowAggregate",
    "column",
    "conjunction",
    "conjuncts",
    "frontiers",
    "kept",
    "rewrite_up",
    "walk",
]
