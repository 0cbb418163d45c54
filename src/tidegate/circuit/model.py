"""The circuit: what the engine runs. Plain immutable data, picklable, independent of Spark.

Rows flow from *producers* (an input relation `in:<name>`, or an op's id) through *branches* (Spark SQL over the
producer's columns) into the *ports* of stateful *ops*, and at the end into *outputs*, one per logged relation.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.schema import Schema
from tidegate.ir.join_specs import IntervalSpec, LookupSpec
from tidegate.ir.specs import (
    AggregateSpec,
    DistinctSpec,
    DuringSpec,
    GatedSpec,
    GateSpec,
    HoldBackSpec,
    KernelSpec,
    TableSpec,
    Test,
    WindowedSpec,
)
from tidegate.traits.waterline import Line


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which `sql` is true. Columns are the bare (back-quoted) names of the rows so far."""

    sql: str


@dataclass(frozen=True)
class Project:
    """Replaces the columns: (name, Spark SQL over the rows so far) in order."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Guard:
    """Drops the rows that are late: those that pass any of the tests. They are on record at the relation's door."""

    tests: tuple[Test, ...]


Step = Filter | Project | Guard


@dataclass(frozen=True)
class Origin:
    """The view that a branch comes through, whose op does not keep what has left it: how many of the branch's steps are
    the view's own, and the columns after them."""

    view: str
    steps: int
    columns: Schema


@dataclass(frozen=True)
class Branch:
    """A chain of filters and projections from one producer."""

    producer: str
    steps: tuple[Step, ...]
    columns: Schema
    origin: Origin | None = None


@dataclass(frozen=True)
class Refusal:
    """How rows that come too late for an op are put on record: the relation they are of (None: the input that their
    branch comes from), the views that refuse them, the time column, the name of its line, and the columns of the port
    that make up the relation's row, as (name, column). `carried` are columns of the port that are there for this only.
    """

    relation: str | None
    views: tuple[str, ...]
    column: str
    line: str
    row: tuple[tuple[str, str], ...]
    carried: tuple[str, ...] = ()


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
    refusal: Refusal | None = None


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
    def forgets(self) -> bool:
        """Whether its state is less than what has left it, so that it cannot say what that was."""
        forgetful = WindowedSpec | GateSpec | GatedSpec | DuringSpec | HoldBackSpec | IntervalSpec | LookupSpec
        over = isinstance(self.kernel, AggregateSpec | DistinctSpec) and bool(self.kernel.over)
        return over or isinstance(self.kernel, forgetful)

    @property
    def timed(self) -> bool:
        """Whether it has something to do when the clock moves, even if no row comes."""
        match self.kernel:
            case AggregateSpec(scalar=scalar, over=over):
                return scalar or bool(over)
            case DistinctSpec(over=over):
                return bool(over)
            case TableSpec(lateness=lateness):
                return bool(lateness)
            case WindowedSpec(line=line):
                return line is not None
            case IntervalSpec(lines=lines, proctime=proctime):
                return proctime or lines != (None, None)
            case GateSpec() | GatedSpec() | HoldBackSpec() | DuringSpec():
                return True
        return False


@dataclass(frozen=True)
class Seen:
    """A column whose largest value moves frontiers, under the name that it is known by. A value that is more than
    `max_ahead` microseconds ahead of the processing clock does not count."""

    column: str
    name: str
    max_ahead: int | None = None


@dataclass(frozen=True)
class Door:
    """Where the rows of a relation are looked at as they come: late ones (which pass any of `tests`) go on record, the
    largest values of the others move frontiers. `checks` are columns with words for what is wrong with a row, each with
    the code of that error; `row` is the column that shows the row then."""

    relation: str
    branches: tuple[Branch, ...]
    columns: Schema
    tests: tuple[Test, ...]
    seen: tuple[Seen, ...]
    checks: tuple[tuple[str, str], ...] = ()
    row: str | None = None


@dataclass(frozen=True)
class Watched:
    """A waterline that users can ask for."""

    relation: str
    column: str
    type: str
    line: str


@dataclass(frozen=True)
class Output:
    """The changes of one relation (table or view) as they are logged.

    `columns` are what users see; the branches produce `columns` followed by `hidden`, key columns that are needed to
    pair the two halves of an update but were not selected. `key` names columns of either; None: no key is known.
    `mark` names a hidden column that does so for corrections of early results. `kind` is append, upsert or changelog.
    """

    relation: str
    branches: tuple[Branch, ...]
    columns: Schema
    hidden: Schema
    key: tuple[str, ...] | None
    kind: str
    mark: str | None = None


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
    """Everything one pipeline computes. `lines` are all waterlines that something in it is held against; `late_to` are
    views with the table that takes their late rows."""

    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]
    doors: tuple[Door, ...] = ()
    lines: tuple[Line, ...] = ()
    watched: tuple[Watched, ...] = ()
    late_to: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """How many levels of stateful operators a row may pass."""
        return max((op.level for op in self.ops), default=0)

    def level(self, number: int) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.level == number)
