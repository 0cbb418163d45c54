"""EXPLAIN of a circuit: outputs, the ops they come from level by level, and the inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.circuit.model import (
    Branch,
    Circuit,
    Filter,
    LateFilter,
    Op,
    Output,
    Port,
    Project,
    PublishedWatermark,
    Step,
)
from tidegate.core.quoting import identifier
from tidegate.plan.explain import Explanation


def explain_circuit(circuit: Circuit) -> Explanation:
    """The whole circuit, deepest level first."""
    levels = [
        {"node": f"Level {number}", "traits": {}, "inputs": [_op(op) for op in _sort_ops(circuit.level(number))]}
        for number in range(circuit.depth, 0, -1)
    ]
    inputs = [
        {"node": f"Input {each.relation}", "traits": {"columns": _columns(each.columns)}, "inputs": []}
        for each in circuit.inputs
    ]
    outputs = [_output(output) for output in circuit.outputs]
    watermarks = [_watermark_node(each) for each in circuit.published]
    return Explanation.of({"node": "Circuit", "traits": {}, "inputs": [*outputs, *levels, *inputs, *watermarks]})


def _watermark_node(published: PublishedWatermark) -> dict[str, Any]:
    return {
        "node": f"Watermark {published.relation}.{published.column} = {published.watermark}",
        "traits": {},
        "inputs": [],
    }


def _sort_ops(ops: Iterable[Op]) -> list[Op]:
    return sorted(ops, key=lambda op: (op.label, op.id))


def _output(output: Output) -> dict[str, Any]:
    traits: dict[str, Any] = {"kind": output.kind, "key": None if output.key is None else list(output.key)}
    traits["columns"] = _columns(output.columns)
    if output.hidden:
        traits["hidden"] = _columns(output.hidden)
    branches = [_branch(branch) for branch in output.branches]
    return {"node": f"Output {output.relation}", "traits": traits, "inputs": branches}


def _op(op: Op) -> dict[str, Any]:
    ports = [_port(port) for port in op.ports]
    return {"node": f"{op.id} {op.label}", "traits": {"columns": _columns(op.columns)}, "inputs": ports}


def _port(port: Port) -> dict[str, Any]:
    traits: dict[str, Any] = {"key": list(port.key)}
    if port.hashes:
        traits["hashes"] = [name for name, _ in port.hashes]
    if port.ordered:
        traits["ordered"] = "by arrival"
    return {"node": "Port", "traits": traits, "inputs": [_branch(branch) for branch in port.branches]}


def _branch(branch: Branch) -> dict[str, Any]:
    steps = [{"node": _step(step), "traits": {}, "inputs": []} for step in branch.steps]
    return {"node": f"from {branch.producer}", "traits": {}, "inputs": steps}


def _step(step: Step) -> str:
    match step:
        case LateFilter():
            return "unless late: " + ", ".join(f"{test.column} < {test.watermark}" for test in step.tests)
        case Filter():
            return f"where {step.sql}"
        case Project():
            return "select " + ", ".join(_item(name, sql) for name, sql in step.items)


def _item(name: str, sql: str) -> str:
    return name if sql == identifier(name) else f"{sql} as {name}"


def _columns(columns: Any) -> list[str]:
    return [f"{column.name} {column.type}" for column in columns]
