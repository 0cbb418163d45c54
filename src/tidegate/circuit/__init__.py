"""Logical plans -> the circuit that the engine runs, its identity and its description."""

from tidegate.circuit.build import build, circuit_of, maintained, ops_behind, upstream
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
    "fingerprint",
    "maintained",
    "ops_behind",
    "upstream",
]
