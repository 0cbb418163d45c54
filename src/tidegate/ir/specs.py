"""What each stateful operator is told at CREATE: plain immutable data, picklable, part of the circuit's fingerprint."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.durations import Length as Length
from tidegate.ir.join_specs import IntervalSpec, JoinSpec, LookupSpec


@dataclass(frozen=True)
class Call:
    """One aggregate of an Aggregate: `func` of the argument columns, into column `out` of Spark type `type`.

    `filter` names a boolean column; rows where it is not true do not count. `options` carries literals
    (such as IGNORE NULLS), as text.
    """

    func: str
    args: tuple[str, ...]
    arg_types: tuple[str, ...]
    out: str
    type: str
    distinct: bool = False
    filter: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Test:
    """Whether a column's value is below the line of that name (or at it, if `inclusive`). NULL is not."""

    column: str
    line: str
    inclusive: bool = False


@dataclass(frozen=True)
class AggregateSpec:
    """GROUP BY `keys`. `append_only`: the input never retracts, so extremes need no multiset. No keys: one group that
    exists from the first step on, if `scalar` (a global aggregate). Rows of new groups beyond `max_groups` are
    refused. Groups that pass a test of `over` have all their rows, and are forgotten; `delayed`: they have them only a
    step later."""

    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    append_only: bool
    scalar: bool
    max_groups: int | None = None
    over: tuple[Test, ...] = ()
    delayed: bool = False


@dataclass(frozen=True)
class DistinctSpec:
    """Each row once, as long as it is in the input at all. Rows that pass a test of `over` do not come again, and are
    forgotten; `delayed`: they may for one more step."""

    columns: tuple[str, ...]
    append_only: bool
    over: tuple[Test, ...] = ()
    delayed: bool = False


@dataclass(frozen=True)
class SetOpSpec:
    """EXCEPT or INTERSECT of two ports by whole rows; `all` keeps multiplicities."""

    kind: str
    all: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopNSpec:
    """The rows `offset < rank <= offset + limit` of each partition. Ties beyond `order` are broken by all columns
    ascending (NULLs first), so the answer is one answer. `rank` is None, or the name of an added BIGINT/INT column with
    the `function` ("row_number", "rank", "dense_rank") of each row; with rank and dense_rank ties share a place."""

    columns: tuple[str, ...]
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    function: str = "row_number"
    rank: str | None = None


@dataclass(frozen=True)
class TableSpec:
    """The content of a table. Keyed (last writer wins) if `key` is not empty, else a bag. A change is late if the row
    that it brings or replaces is below a line of `lateness`."""

    relation: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    append_only: bool
    lateness: tuple[Test, ...] = ()


@dataclass(frozen=True)
class WindowSpec:
    """Windows `[start, end)` over the column `time` (timestamp, timestamp_ntz or date).

    `kind`: tumble (`size`), hop (`size`, every `slide`), cumulate (`size` in steps of `slide`), session (`size` is the
    gap, `slide` is None). Aligned to the epoch plus `offset` microseconds; windows of months to the year 1970.
    `type` is the Spark type of `time`: it says how its line is reckoned, and the type of `start` and `end`.
    """

    kind: str
    time: str
    size: Length
    slide: Length | None = None
    offset: int = 0
    start: str = "window_start"
    end: str = "window_end"
    type: str = "timestamp"


@dataclass(frozen=True)
class WindowedSpec:
    """GROUP BY windows: `aggregate` over the rows of each window. Its keys are the other group columns followed by
    `window.start` and `window.end`. `line` names the frontier of `window.time` (None: windows never close).

    A row is late when the frontier has reached the end of all its windows plus `lateness` microseconds. `delayed`: rows
    are held against the frontier of the step before, since what they come from lets them go when the frontier moves.
    """

    window: WindowSpec
    aggregate: AggregateSpec
    line: str | None
    lateness: int = 0
    delayed: bool = False


@dataclass(frozen=True)
class AssignSpec:
    """Every row once for each of its windows, with their `start` and `end`; nothing is late here. Sessions are per
    `partition`."""

    window: WindowSpec
    columns: tuple[str, ...]
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateSpec:
    """Holds changes of rows back and lets them go.

    A change leaves when its row passes all tests of `release` (none: it never does). With `every`, changes leave when
    processing time has reached a multiple of that many microseconds, and those of a row that just begins to pass
    `release` leave at once. A row that passes all tests of `late` (if there are any) comes too late. `columns` are
    those of the rows it holds.
    """

    columns: tuple[str, ...]
    release: tuple[Test, ...]
    late: tuple[Test, ...] = ()
    every: int | None = None
    delayed: bool = False


@dataclass(frozen=True)
class GatedSpec:
    """An aggregate and the gate that its results wait at."""

    inner: AggregateSpec | WindowedSpec
    gate: GateSpec


@dataclass(frozen=True)
class HoldBackSpec:
    """Rows come out once every test holds, in the step after the one that made it so; NULL never waits."""

    columns: tuple[str, ...]
    tests: tuple[Test, ...]


@dataclass(frozen=True)
class DuringSpec:
    """Rows are there while `since <= processing time < until`, microseconds in columns of those names (None, or NULL in
    the column: no such bound). Neither is among `columns`, the rows that come out."""

    columns: tuple[str, ...]
    since: str | None
    until: str | None


KernelSpec = (
    AggregateSpec
    | DistinctSpec
    | SetOpSpec
    | TopNSpec
    | TableSpec
    | WindowedSpec
    | AssignSpec
    | GateSpec
    | GatedSpec
    | HoldBackSpec
    | DuringSpec
    | JoinSpec
    | LookupSpec
    | IntervalSpec
)


def share_of_cap(spec: KernelSpec, buckets: int) -> KernelSpec:
    """The operator as one of several buckets runs it: each lets in its share of the groups that a cap allows. Keys fall
    evenly, so all together are close to the cap."""
    match spec:
        case GatedSpec(inner=inner):
            found = share_of_cap(inner, buckets)
            assert isinstance(found, AggregateSpec | WindowedSpec)
            return replace(spec, inner=found)
        case WindowedSpec(aggregate=aggregate):
            found = share_of_cap(aggregate, buckets)
            assert isinstance(found, AggregateSpec)
            return replace(spec, aggregate=found)
        case AggregateSpec(max_groups=int(most)) if buckets > 1:
            return replace(spec, max_groups=-(-most // buckets))
    return spec
