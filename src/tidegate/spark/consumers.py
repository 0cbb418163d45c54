"""Who reads the rows of each producer of a circuit: the branches of ports, outputs and ingress checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidegate.circuit.model import (
    Branch,
    Circuit,
    Filter,
    Ingress,
    LateFilter,
    ObservedColumn,
    Op,
    Output,
    Port,
    Project,
    RejectedRows,
)
from tidegate.core.columns import HASH, ORDER
from tidegate.ir.windows import WatermarkTest
from tidegate.spark import blocks
from tidegate.spark.expressions import quoted

GUARD = "__late"


@dataclass(frozen=True)
class Consumer:
    """One branch with the target its rows are for."""

    branch: Branch
    address: str
    port: int
    op: Op | None
    key: tuple[str, ...] = ()
    hashes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ordered: bool = False
    rejected: RejectedRows | None = None
    ingress: Ingress | None = None
    output: Output | None = None

    @property
    def guards(self) -> tuple[WatermarkTest, ...]:
        """The late filters of its branch, over the columns that carry the tested values."""
        tests = [test for step in self.branch.steps if isinstance(step, LateFilter) for test in step.tests]
        return tuple(replace(test, column=f"{GUARD}{number}") for number, test in enumerate(tests))


@dataclass(frozen=True)
class Replays:
    """New consumers of ops that existed before this generation: they begin with the whole content of the op."""

    consumers: tuple[Consumer, ...] = ()

    def of(self, op: str) -> tuple[Consumer, ...]:
        return tuple(consumer for consumer in self.consumers if consumer.branch.producer == op)


def consumers(circuit: Circuit) -> tuple[Consumer, ...]:
    """Every branch of the circuit with its target."""
    result = []
    for op in circuit.ops:
        for number, port in enumerate(op.ports):
            result += [_port_consumer(branch, op, number, port) for branch in port.branches]
    for output in circuit.outputs:
        address = blocks.OUTPUT + output.relation
        result += [Consumer(branch, address, 0, None, output=output) for branch in output.branches]
    for number, ingress in enumerate(circuit.ingresses):
        result += [
            Consumer(branch, f"{blocks.INGRESS}{number}", 0, None, ingress=ingress) for branch in ingress.branches
        ]
    return tuple(result)


def _port_consumer(branch: Branch, op: Op, number: int, port: Port) -> Consumer:
    hashes = ((HASH, port.key), *port.hashes)
    return Consumer(branch, op.id, number, op, port.key, hashes, port.ordered, port.rejected)


def plain_consumer(pairs: list[tuple[Consumer, str | None]]) -> Consumer | None:
    """The one consumer, if there is just one and it applies at most one projection to every row. Ingress checks that
    only observe columns can do so on its rows."""
    ingresses = [consumer for consumer, _ in pairs if consumer.ingress is not None]
    others = [consumer for consumer, _ in pairs if consumer.ingress is None]
    if len(others) != 1 or any(
        each.ingress is not None and (each.ingress.tests or each.branch.steps) for each in ingresses
    ):
        return None
    rounds = rounds_of(others[0].branch)
    return others[0] if len(rounds) == 1 and not rounds[0][0] and not rounds[0][2] else None


def observed_columns(ingresses: tuple[Consumer, ...]) -> Iterator[tuple[int, int, ObservedColumn]]:
    """(number of the ingress check, number of its column, the column)."""
    for number, consumer in enumerate(ingresses):
        assert consumer.ingress is not None
        for at, observed in enumerate(consumer.ingress.observed):
            yield number, at, observed


def is_content(consumer: Consumer, prefix: str | None) -> bool:
    """True if rows are replayed, or come from a content input."""
    return (prefix or "").startswith(blocks.REPLAYED) or consumer.branch.producer.is_content


def rejected_rows_of(consumer: Consumer) -> RejectedRows | None:
    """How rejected rows of a branch are recorded; without a relation, under the input that the branch reads."""
    rejected = consumer.rejected
    if rejected is None or rejected.relation is not None:
        return rejected
    return replace(rejected, relation=consumer.branch.producer.relation or rejected.views[0])


Round = tuple[list[str], Iterable[tuple[str, str]], list[WatermarkTest]]


def rounds_of(branch: Branch) -> list[Round]:
    """A branch as rounds of filters, one projection, and the late filters on the columns before it."""
    rounds: list[Round] = []
    filters: list[str] = []
    tests: list[WatermarkTest] = []
    for step in branch.steps:
        match step:
            case Filter():
                filters.append(step.sql)
            case LateFilter():
                tests += step.tests
            case Project():
                rounds.append((filters, step.items, tests))
                filters, tests = [], []
    if filters or tests or not rounds:
        items = [(column.name, quoted(column.name)) for column in branch.columns if column.name != ORDER]
        rounds.append((filters, items, tests))
    return rounds
