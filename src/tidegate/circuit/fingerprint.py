"""What a pipeline computes, as hashes: to resume it only with the definitions that it was built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.circuit.identity import branch_definition, digest, types
from tidegate.circuit.model import Circuit, Input, Output, upstream


@dataclass(frozen=True)
class Fingerprint:
    """A hash per input and per output; `ops` are the ids of all ops with what they do, in words."""

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
    """What changed, in words, one sentence part each; empty if nothing did."""
    return (
        *_compared("input", old.inputs, new.inputs),
        *_compared("relation", old.outputs, new.outputs),
    )


def changed(old: Fingerprint, new: Fingerprint) -> tuple[str, ...]:
    """Outputs that both have, but not with the same meaning."""
    return tuple(sorted(name for name, found in new.outputs.items() if old.outputs.get(name, found) != found))


def _compared(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    added = [f"{kind} {name} is new" for name in sorted(set(new) - set(old))]
    gone = [f"{kind} {name} is gone" for name in sorted(set(old) - set(new))]
    other = [f"{kind} {name} is defined differently" for name in sorted(set(old) & set(new)) if old[name] != new[name]]
    return (*other, *added, *gone)


def _input(given: Input) -> str:
    return digest((given.relation, types(given.columns)))


def _output(circuit: Circuit, output: Output) -> str:
    ops = sorted(op.id for op in upstream(circuit, output.branches))
    branches = [branch_definition(branch) for branch in output.branches]
    return digest((ops, branches, types(output.columns), types(output.hidden), output.key, output.kind))
