"""Logical plan -> branches and ops. Each module lowers the plan nodes of one kind."""

from tidegate.circuit.lower import inputs, joins, rows, windows
from tidegate.circuit.lower.builder import CircuitBuilder, circuit_of

__all__ = ["CircuitBuilder", "circuit_of", "inputs", "joins", "rows", "windows"]
