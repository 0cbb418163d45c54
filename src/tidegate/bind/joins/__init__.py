"""Joins: the relations of FROM, the choice of a join for each, and EARLY_FIRE."""

from tidegate.bind.joins.joiner import bind_joins

__all__ = ["bind_joins"]
