"""What a circuit's outputs come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidegate.circuit.model import Branch, Circuit, Op, Output


def ops_behind(circuit: Circuit, output: Output) -> tuple[str, ...]:
    """The ids of the ops that an output needs."""
    return tuple(op.id for op in upstream(circuit, output.branches))


def upstream(circuit: Circuit, branches: Iterable[Branch]) -> Iterator[Op]:
    """The ops that branches come from, directly or not, each once."""
    by_id = {op.id: op for op in circuit.ops}
    seen: set[str] = set()
    waiting = [branch.producer for branch in branches]
    while waiting:
        producer = waiting.pop(0)
        if producer in by_id and producer not in seen:
            seen.add(producer)
            yield by_id[producer]
            waiting += [branch.producer for port in by_id[producer].ports for branch in port.branches]
