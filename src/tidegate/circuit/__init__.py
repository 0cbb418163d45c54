"""Logical plans -> the circuit that the engine runs, its identity and its description."""

from tidegate.circuit.build import build, circuit_of, event_views, maintained, ops_behind, upstream
from tidegate.circuit.fingerprint import Fingerprint, changed, diff, fingerprint
from tidegate.circuit.model import Branch, Circuit, Filter, Input, Op, Output, Port, Project

__all__ = [
    "Branch",
    "Circuit",
    "Filter",
    "Fingerprint",
    "Input",
    "Op",
    "Output",
    "Port",
    "Project",
    "build",
    "changed",
    "circuit_of",
    "diff",
    "event_views",
    "fingerprint",
    "maintained",
    "ops_behind",
    "upstream",
]
