"""Joins: what FROM puts together, which kind of join that is, and what EARLY_FIRE says of it."""

from tidegate.bind.joins.relations import bind_joins

__all__ = ["bind_joins"]
