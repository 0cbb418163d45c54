"""Statements -> catalog entries and logical plans."""

from tidegate.bind.adhoc import BoundSelect, DirectSelect, bind_select, temp_name
from tidegate.bind.constants import check_constants
from tidegate.bind.context import Analyzer
from tidegate.bind.relation import bind_relation, check_times, lateness_note
from tidegate.bind.view import BoundView, Extras, bind_definition

__all__ = [
    "Analyzer",
    "BoundSelect",
    "BoundView",
    "DirectSelect",
    "Extras",
    "bind_definition",
    "bind_relation",
    "bind_select",
    "check_constants",
    "check_times",
    "lateness_note",
    "temp_name",
]
