"""Hashes of what a pipeline computes, so that it is resumed only with the definitions that it was built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.circuit.identity import branch_definition, digest, types
from tidegate.circuit.model import Circuit, Input, Output, upstream


@dataclass(frozen=True)
class Fingerprint:
    """A hash per input and per output; `ops` are the ids of all ops with their labels."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    ops: Mapping[str, str]

    @property
    def whole(self) -> str:
        """One hash for everything."""
        return digest((self.inputs, self.outputs, sorted(self.ops)))

    def to_json(self) -> dict[str, dict[str, str]]:
        return {"inputs": dict(self.inputs), "outputs": dict(self.outputs), "ops": dict(self.ops)}

    @staticmethod
    def from_json(document: Mapping[str, Mapping[str, str]]) -> Fingerprint:
        return Fingerprint(dict(document["inputs"]), dict(document["outputs"]), dict(document["ops"]))


def fingerprint(circuit: Circuit) -> Fingerprint:
    """The fingerprint of a circuit."""
    return Fingerprint(
        {each.relation: _input(each) for each in circuit.inputs},
        {each.relation: _output(circuit, each) for each in circuit.outputs},
        {op.id: op.label for op in circuit.ops},
    )


def diff(old: Fingerprint, new: Fingerprint) -> tuple[str, ...]:
    """The differences, in words; empty if there are none."""
    return (
        *_compare("input", old.inputs, new.inputs),
        *_compare("relation", old.outputs, new.outputs),
    )


def changed_outputs(old: Fingerprint, new: Fingerprint) -> tuple[str, ...]:
    """Outputs that both have, but not with the same meaning."""
    return tuple(sorted(name for name, hash in new.outputs.items() if old.outputs.get(name, hash) != hash))


def _compare(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    added = [f"{kind} {name} is new" for name in sorted(set(new) - set(old))]
    gone = [f"{kind} {name} is gone" for name in sorted(set(old) - set(new))]
    other = [f"{kind} {name} is defined differently" for name in sorted(set(old) & set(new)) if old[name] != new[name]]
    return (*other, *added, *gone)


def _input(input: Input) -> str:
    return digest((input.relation, types(input.columns)))


def _output(circuit: Circuit, output: Output) -> str:
    ops = sorted(op.id for op in upstream(circuit, output.branches))
    branches = [branch_definition(branch) for branch in output.branches]
    return digest((ops, branches, types(output.columns), types(output.hidden), output.key, output.kind))
