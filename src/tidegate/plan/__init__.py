"""The logical plan: nodes, walking, printing."""

from tidegate.plan.leaves import Node, Scan, View
from tidegate.plan.nodes import Aggregate, Distinct, Filter, Item, Project, Rank, SetOp, TopN, UnionAll, kept
from tidegate.plan.scalar import Scalar, column, conjunction, conjuncts
from tidegate.plan.walk import rewrite_up, walk

__all__ = [
    "Aggregate",
    "Distinct",
    "Filter",
    "Item",
    "Node",
    "Project",
    "Rank",
    "Scalar",
    "Scan",
    "SetOp",
    "TopN",
    "UnionAll",
    "View",
    "column",
    "conjunction",
    "conjuncts",
    "kept",
    "rewrite_up",
    "walk",
]
