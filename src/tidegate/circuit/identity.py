"""The identity of an op: a hash of its definition and of everything above it, whatever views it serves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tidegate.circuit.model import Branch, Port
from tidegate.core.schema import Schema
from tidegate.ir.specs import KernelSpec

DIGITS = 12


def digest(parts: Iterable[object]) -> str:
    """A short hash of plain data, the same in every process."""
    text = "\n".join(repr(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def op_id(kernel: KernelSpec, ports: tuple[Port, ...], columns: Schema, since: int) -> str:
    """Upstream ops are named by their ids in the branches, so the hash covers all of them. `since` is the step after
    which an op over an input begins."""
    return digest((kernel, *(_port(port) for port in ports), types(columns), since))


def branch_definition(branch: Branch) -> tuple[object, ...]:
    return (branch.producer, branch.steps, types(branch.columns))


def types(columns: Schema) -> tuple[tuple[str, str], ...]:
    """Columns without their nullability, which changes nothing about rows in flight."""
    return tuple((column.name, column.type) for column in columns)


def _port(port: Port) -> tuple[object, ...]:
    branches = tuple(branch_definition(branch) for branch in port.branches)
    return (branches, types(port.columns), port.key, port.hashes, port.ordered)
