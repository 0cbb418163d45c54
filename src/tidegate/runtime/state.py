"""The state of a pipeline as its users see it: per view, and per bucket of every operator. It needs no Spark, so other
processes can look, too."""

from __future__ import annotations

from typing import Any

from tidegate.circuit.labels import label
from tidegate.circuit.model import Circuit, ops_behind
from tidegate.storage.generations import GenerationFiles
from tidegate.storage.step_log import StepLog

Sizes = tuple[int, int, int]
NOTHING = Circuit((), (), ())


class StateSizes:
    """The sizes of what the newest step left."""

    def __init__(self, generations: GenerationFiles, log: StepLog) -> None:
        self._generations, self._log = generations, log

    def per_view(self) -> dict[str, Sizes]:
        """For each maintained relation the rows and bytes of state of its ops, and the rows that they have evicted."""
        built, last = self._circuit(), self._log.last()
        evicted = self._log.header(last).dropped
        sizes: dict[str, tuple[int, int]] = {}
        for (op, _), state in self._log.state(last).buckets.items():
            rows, size = sizes.get(op, (0, 0))
            sizes[op] = rows + state.rows, size + state.bytes
        return {
            output.relation: (
                sum(sizes.get(op, (0, 0))[0] for op in ops),
                sum(sizes.get(op, (0, 0))[1] for op in ops),
                sum(evicted.get(op, 0) for op in ops),
            )
            for output in built.outputs
            for ops in (ops_behind(built, output),)
        }

    def per_bucket(self, step: int) -> list[dict[str, Any]]:
        """One row per bucket of every op that had state after a step."""
        built = self._circuit()
        labels = {op.id: label(op.kernel) for op in built.ops}
        views: dict[str, list[str]] = {}
        for output in built.outputs:
            for op in ops_behind(built, output):
                views.setdefault(op, []).append(output.relation)
        return [
            {
                "op": op,
                "operator": labels.get(op),
                "views": ", ".join(sorted(views.get(op, ()))) or None,
                "bucket": bucket,
                "rows": state.rows,
                "bytes": state.bytes,
                "objects": len(state.uses),
            }
            for (op, bucket), state in sorted(self._log.state(step).buckets.items())
        ]

    def _circuit(self) -> Circuit:
        """What the pipeline runs, by its newest generation."""
        record = self._generations.newest()
        return NOTHING if record is None else record.circuit
