"""Statements -> catalog entries and logical plans."""

from tidegate.bind.adhoc import BoundSelect, bind_select, temp_name
from tidegate.bind.analyzer import Analyzer
from tidegate.bind.explain import explain_query, explain_relation
from tidegate.bind.relation import bind_relation, bind_sink
from tidegate.bind.view import BoundView, bind_view, definition, rebound, relation_rows, view_entry

__all__ = [
    "Analyzer",
    "BoundSelect",
    "BoundView",
    "bind_relation",
    "bind_select",
    "bind_sink",
    "bind_view",
    "definition",
    "explain_query",
    "explain_relation",
    "rebound",
    "relation_rows",
    "temp_name",
    "view_entry",
]
