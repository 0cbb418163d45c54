"""The identity of an op: a hash of its definition and of everything above it, whatever views it serves.

What is hashed is the canonical JSON of the definition (`circuit/stored.py`), never Python's `repr`: a class may be
renamed, and a field with a default added, without changing an id and losing the state that is stored under it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from tidegate.circuit.model import Branch, Port
from tidegate.circuit.stored import CODEC
from tidegate.core.records import Codec, canonical
from tidegate.core.schema import Schema
from tidegate.ir.specs import EvictingSpec, KernelSpec, TopNSpec

DIGITS = 12


def digest(parts: Iterable[object], codec: Codec = CODEC) -> str:
    """A short hash of plain data, the same in every process and version."""
    return hashlib.sha256(canonical(codec.encode(list(parts))).encode()).hexdigest()[:DIGITS]


def op_id(kernel: KernelSpec, ports: tuple[Port, ...], columns: Schema, since: int, codec: Codec = CODEC) -> str:
    """Hashes an op. Upstream ops are named by their ids in the branches, so the hash covers all of them. `since` is the
    step after which an op over an input begins."""
    return digest((answering(kernel), [_port(port) for port in ports], types(columns), since), codec)


def answering(kernel: KernelSpec) -> KernelSpec:
    """The part of a spec that decides about answers. What is evicted or not stored besides changes none, so the op
    continues with state that holds more, as a version stored it that did not know of that."""
    match kernel:
        case EvictingSpec(inner=inner):
            return answering(inner)
        case TopNSpec(append_only=True):
            return replace(kernel, append_only=False)
    return kernel


def branch_definition(branch: Branch) -> tuple[object, ...]:
    return (branch.producer, branch.steps, types(branch.columns))


def types(columns: Schema) -> tuple[tuple[str, str], ...]:
    """Columns without their nullability, which changes nothing about rows in flight."""
    return tuple((column.name, column.type) for column in columns)


def _port(port: Port) -> tuple[object, ...]:
    branches = tuple(branch_definition(branch) for branch in port.branches)
    return (branches, types(port.columns), port.key, port.hashes, port.ordered)
