"""Logical plan -> branches and ops. Each module lowers the plan nodes of one kind."""

from tidegate.circuit.lower import inputs, joins, rows, windows
from tidegate.circuit.lower.lowering import Lowering, circuit_of

__all__ = ["Lowering", "circuit_of", "inputs", "joins", "rows", "windows"]
