"""Statements -> catalog entries and logical plans."""

from tidegate.bind.adhoc import BoundSelect, bind_select, temp_name
from tidegate.bind.analyzer import Analyzer
from tidegate.bind.explain import explain_query, explain_relation
from tidegate.bind.relation import bind_relation, bind_sink, known_times, lateness_note
from tidegate.bind.view import (
    BoundView,
    Extras,
    bind_view,
    definition,
    forced_view,
    rebound,
    relation_rows,
    view_entry,
)

__all__ = [
    "Analyzer",
    "BoundSelect",
    "BoundView",
    "Extras",
    "bind_relation",
    "bind_select",
    "bind_sink",
    "bind_view",
    "definition",
    "explain_query",
    "explain_relation",
    "forced_view",
    "known_times",
    "lateness_note",
    "rebound",
    "relation_rows",
    "temp_name",
    "view_entry",
]
