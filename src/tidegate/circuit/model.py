"""The circuit: what the engine runs. Plain immutable data, picklable, independent of Spark.

Rows flow from *producers* (an input relation `in:<name>`, or an op's id) through *branches* (Spark SQL over the
producer's columns) into the *ports* of stateful *ops*, and at the end into *outputs*, one per logged relation.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.catalog.schema import Schema
from tidegate.kernels.specs import KernelSpec


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which `sql` is true. Columns are the bare (back-quoted) names of the rows so far."""

    sql: str


@dataclass(frozen=True)
class Project:
    """Replaces the columns: (name, Spark SQL over the rows so far) in order."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Branch:
    """A chain of filters and projections from one producer."""

    producer: str
    steps: tuple[Filter | Project, ...]
    columns: Schema


@dataclass(frozen=True)
class Port:
    """One input of an op: the union of its branches, all with the same `columns`.

    `key` are the columns whose hash picks the bucket (empty: everything is in one bucket); the hash reaches the kernel
    as `__h`. `hashes` are further 64-bit hashes the kernel wants: (name, columns) each. `ordered` ports get `__seq`,
    the order of arrival inside the step (0 for rows that come from an op).
    """

    branches: tuple[Branch, ...]
    columns: Schema
    key: tuple[str, ...]
    hashes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ordered: bool = False


@dataclass(frozen=True)
class Op:
    """A stateful operator. Its id is a hash of its whole definition, so equal ops are one op and keep one state."""

    id: str
    level: int
    kernel: KernelSpec
    ports: tuple[Port, ...]
    columns: Schema
    label: str


@dataclass(frozen=True)
class Output:
    """The changes of one relation (table or view) as they are logged.

    `columns` are what users see; the branches produce `columns` followed by `hidden`, key columns that are needed to
    pair the two halves of an update but were not selected. `key` names columns of either; None: no key is known.
    `kind` is append, upsert or changelog.
    """

    relation: str
    branches: tuple[Branch, ...]
    columns: Schema
    hidden: Schema
    key: tuple[str, ...] | None
    kind: str


@dataclass(frozen=True)
class Input:
    """A relation that feeds the circuit from outside. `producer` is its name in branches."""

    relation: str
    columns: Schema

    @property
    def producer(self) -> str:
        return f"in:{self.relation}"


@dataclass(frozen=True)
class Circuit:
    """Everything one pipeline computes."""

    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]

    @property
    def depth(self) -> int:
        """How many levels of stateful operators a row may pass."""
        return max((op.level for op in self.ops), default=0)

    def level(self, number: int) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.level == number)
