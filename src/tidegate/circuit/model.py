"""The circuit: what the engine runs. Plain immutable data, picklable, independent of Spark.

Rows flow from *producers* (an input relation or an op) through *branches* (Spark SQL over the
producer's columns) into the *ports* of stateful *ops*, and at the end into *outputs*, one per logged relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidegate.core.columns import Producer
from tidegate.core.schema import Schema
from tidegate.ir.joins import IntervalJoinSpec, LookupJoinSpec
from tidegate.ir.specs import (
    AggregateSpec,
    DistinctSpec,
    EvictingSpec,
    GatedAggregateSpec,
    GateSpec,
    HoldBackSpec,
    KernelSpec,
    TableSpec,
    TemporalFilterSpec,
    WindowAggregateSpec,
)
from tidegate.ir.windows import WatermarkTest, WindowSpec
from tidegate.traits.watermark import Watermark


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which `sql` is true. Columns are the bare (back-quoted) names of the rows so far."""

    sql: str


@dataclass(frozen=True)
class Project:
    """Replaces the columns: (name, Spark SQL over the rows so far) in order."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LateFilter:
    """Drops late rows, those that pass any of the tests. They are recorded at the ingress of their relation."""

    tests: tuple[WatermarkTest, ...]


Step = Filter | Project | LateFilter


@dataclass(frozen=True)
class Origin:
    """The view that a branch passes, whose op evicts what it has emitted: how many of the branch's steps belong to the
    view, and the columns after them."""

    view: str
    steps: int
    columns: Schema


@dataclass(frozen=True)
class Branch:
    """A chain of filters and projections from one producer."""

    producer: Producer
    steps: tuple[Step, ...]
    columns: Schema
    origin: Origin | None = None


@dataclass(frozen=True)
class RejectedRows:
    """How rows that an op rejects are recorded: their relation (None: the input of their branch), the views that reject
    them, the time column, the name of its watermark, and the columns of the port that make up the relation's row, as
    (name, column). `carried` are columns of the port that serve only this purpose. `windows`: the port has each row
    once for each of these windows of it, and a row is recorded with the last of them, since it is late only if all
    are."""

    relation: str | None
    views: tuple[str, ...]
    column: str
    watermark: str
    row: tuple[tuple[str, str], ...]
    carried: tuple[str, ...] = ()
    windows: WindowSpec | None = None


@dataclass(frozen=True)
class Port:
    """One input of an op: the union of its branches, all with the same `columns`.

    `key` are the columns whose hash picks the bucket (empty: everything is in one bucket); the hash reaches the kernel
    as `__h`. `hashes` are further 64-bit hashes for the kernel: (name, columns) each. `ordered` ports get `__seq`, the
    order of arrival inside the step (0 for rows of an op).
    """

    branches: tuple[Branch, ...]
    columns: Schema
    key: tuple[str, ...]
    hashes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ordered: bool = False
    rejected: RejectedRows | None = None


@dataclass(frozen=True)
class Op:
    """A stateful operator. Its id is a hash of its whole definition, so equal ops are one op and keep one state."""

    id: str
    level: int
    kernel: KernelSpec
    ports: tuple[Port, ...]
    columns: Schema
    label: str

    @property
    def evicts(self) -> bool:
        """True if it no longer holds all that it has emitted, so that its output cannot be rebuilt from its state."""
        evicting = (
            WindowAggregateSpec
            | GateSpec
            | GatedAggregateSpec
            | TemporalFilterSpec
            | HoldBackSpec
            | IntervalJoinSpec
            | LookupJoinSpec
            | EvictingSpec
        )
        evicts_groups = isinstance(self.kernel, AggregateSpec | DistinctSpec) and bool(self.kernel.evict_before)
        return evicts_groups or isinstance(self.kernel, evicting)

    @property
    def timed(self) -> bool:
        """True if it has work to do when the clock moves, even if no row arrives."""
        match self.kernel:
            case AggregateSpec(scalar=scalar, evict_before=tests):
                return scalar or bool(tests)
            case DistinctSpec(evict_before=tests):
                return bool(tests)
            case TableSpec(lateness=lateness):
                return bool(lateness)
            case WindowAggregateSpec(watermark=watermark):
                return watermark is not None
            case IntervalJoinSpec(watermarks=watermarks, proctime=proctime):
                return proctime or watermarks != (None, None)
            case GateSpec() | GatedAggregateSpec() | HoldBackSpec() | TemporalFilterSpec() | EvictingSpec():
                return True
        return False


@dataclass(frozen=True)
class ObservedColumn:
    """A column whose largest value moves watermarks, and the name under which that value is tracked. A value more than
    `max_ahead` microseconds ahead of the processing clock is ignored."""

    column: str
    name: str
    max_ahead: int | None = None


@dataclass(frozen=True)
class Ingress:
    """Where the rows of a relation are checked on arrival: late ones (which pass any of `tests`) are recorded, the
    largest values of the others move watermarks. `checks` are columns that hold what is wrong with a row, each with the
    code of that error; `row` is the column that holds such a row as JSON."""

    relation: str
    branches: tuple[Branch, ...]
    columns: Schema
    tests: tuple[WatermarkTest, ...]
    observed: tuple[ObservedColumn, ...]
    checks: tuple[tuple[str, str], ...] = ()
    row: str | None = None


@dataclass(frozen=True)
class PublishedWatermark:
    """A watermark that users can query."""

    relation: str
    column: str
    type: str
    watermark: str


@dataclass(frozen=True)
class Output:
    """The changes of one relation (table or view) as they are logged.

    `columns` are what users see; the branches produce `columns` followed by `hidden`, key columns that are needed to
    pair the two halves of an update but were not selected. `key` names columns of either; None: no key is known.
    `mark` names a hidden column that does so for corrections of early results. `kind` is append, upsert or changelog.
    `on_error` is what happens when an expression fails for a row: `quarantine` records it, `stop` ends the pipeline.
    """

    relation: str
    branches: tuple[Branch, ...]
    columns: Schema
    hidden: Schema
    key: tuple[str, ...] | None
    kind: str
    mark: str | None = None
    on_error: str = "quarantine"


@dataclass(frozen=True)
class Input:
    """A relation that feeds the circuit from outside."""

    relation: str
    columns: Schema

    @property
    def producer(self) -> Producer:
        """The producer of the branches that read it."""
        return Producer.of_input(self.relation)


@dataclass(frozen=True)
class Circuit:
    """Everything one pipeline computes. `watermarks` are all that something in it is compared with, `published` those
    that users can query; `late_to` are views with the table that takes their late rows."""

    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]
    ingresses: tuple[Ingress, ...] = ()
    watermarks: tuple[Watermark, ...] = ()
    published: tuple[PublishedWatermark, ...] = ()
    late_to: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """How many levels of stateful operators a row may pass."""
        return max((op.level for op in self.ops), default=0)

    def level(self, number: int) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.level == number)


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
