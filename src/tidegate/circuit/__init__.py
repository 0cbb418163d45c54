"""Logical plans -> the circuit that the engine runs, its identity and its description."""

from tidegate.circuit.fingerprint import Fingerprint, changed_outputs, diff, fingerprint
from tidegate.circuit.lower import CircuitBuilder, circuit_of
from tidegate.circuit.model import Branch, Circuit, Filter, Input, Op, Output, Port, Project, ops_behind, upstream

__all__ = [
    "Branch",
    "Circuit",
    "CircuitBuilder",
    "Filter",
    "Fingerprint",
    "Input",
    "Op",
    "Output",
    "Port",
    "Project",
    "changed_outputs",
    "circuit_of",
    "diff",
    "fingerprint",
    "ops_behind",
    "upstream",
]
