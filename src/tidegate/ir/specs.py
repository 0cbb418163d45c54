"""Specs of the stateful operators: plain immutable data from which a kernel is made, and which identifies its state.

`delayed`, wherever it occurs: rows reach the operator one step after the watermark that released them upstream, so they
are compared with the watermarks of the previous step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.ir.joins import IntervalJoinSpec, JoinSpec, LookupJoinSpec
from tidegate.ir.windows import WatermarkTest, WindowSpec


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate function: `func` of the argument columns, into column `out` of Spark type `type`.

    `filter` names a boolean column; only rows where it is true count. `options` holds literals as text, such as the
    delimiter of LISTAGG.
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
class AggregateSpec:
    """GROUP BY `keys`.

    `append_only`: the input never retracts, so extremes need no multiset. `scalar`: a global aggregate, whose single
    group exists from the first step on. Rows of new groups beyond `max_groups` are rejected. Groups that pass a test of
    `evict_before` can never change again and are evicted.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    append_only: bool
    scalar: bool
    max_groups: int | None = None
    evict_before: tuple[WatermarkTest, ...] = ()
    delayed: bool = False


@dataclass(frozen=True)
class DistinctSpec:
    """Each row once while its weight is positive. Rows that pass a test of `evict_before` cannot come again and are
    evicted."""

    columns: tuple[str, ...]
    append_only: bool
    evict_before: tuple[WatermarkTest, ...] = ()
    delayed: bool = False


@dataclass(frozen=True)
class SetOpSpec:
    """EXCEPT or INTERSECT of two ports by whole rows; `all` keeps multiplicities."""

    kind: str
    all: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """One item of an ORDER BY."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopNSpec:
    """The rows with `offset < rank <= offset + limit` of each partition.

    All columns ascending (NULLs first) break ties of `order`, so the answer is unique. `rank` names an added column
    with the `function` (row_number, rank, dense_rank) of each row, or is None; under rank and dense_rank ties share a
    rank. `append_only`: the input never retracts, so rows behind the top are not stored. That changes no answer, and is
    no part of the op's identity.
    """

    columns: tuple[str, ...]
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    function: str = "row_number"
    rank: str | None = None
    append_only: bool = False


@dataclass(frozen=True)
class TableSpec:
    """The content of a table: keyed (the last write wins) if `key` is not empty, else a bag. A change is late if the
    row that it writes or replaces passes a test of `lateness`."""

    relation: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    append_only: bool
    lateness: tuple[WatermarkTest, ...] = ()


@dataclass(frozen=True)
class WindowAggregateSpec:
    """GROUP BY windows: `aggregate` over the rows of each window. Its keys are the other group columns followed by
    `window.start` and `window.end`.

    `watermark` names the watermark of `window.time` (None: windows never close). A row is late when the watermark has
    reached the end of all its windows plus `lateness` microseconds.
    """

    window: WindowSpec
    aggregate: AggregateSpec
    watermark: str | None
    lateness: int = 0
    delayed: bool = False


@dataclass(frozen=True)
class AssignWindowsSpec:
    """Window table functions: every row once for each of its windows, with their `start` and `end`. No row is late.
    Sessions are per `partition`."""

    window: WindowSpec
    columns: tuple[str, ...]
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateSpec:
    """The release policy of an EMIT clause: holds back changes of rows and releases them later.

    A change is released when its row passes all tests of `release` (none: never). With `every`, changes are released
    when processing time reaches a multiple of that many microseconds, and those of a row that starts to pass `release`
    at once. A row that passes all tests of `late` (if there are any) is late. `columns` are those of the rows.
    """

    columns: tuple[str, ...]
    release: tuple[WatermarkTest, ...]
    late: tuple[WatermarkTest, ...] = ()
    every: int | None = None
    delayed: bool = False


@dataclass(frozen=True)
class GatedAggregateSpec:
    """An aggregate and the emit gate for its results."""

    inner: AggregateSpec | WindowAggregateSpec
    gate: GateSpec


@dataclass(frozen=True)
class HoldBackSpec:
    """A reorder buffer: a row is released in the step after the one in which it passes all `tests`. Rows with NULL are
    not held."""

    columns: tuple[str, ...]
    tests: tuple[WatermarkTest, ...]


@dataclass(frozen=True)
class TemporalFilterSpec:
    """Rows exist while `since <= processing time < until`: microseconds in columns of those names (None, or NULL in the
    column: unbounded). Neither is among `columns`, the output."""

    columns: tuple[str, ...]
    since: str | None
    until: str | None


@dataclass(frozen=True)
class EvictingSpec:
    """An operator whose rows are evicted once no input can change or match them any more.

    `order` names a column of each port, equal in rows that meet, by which rows are stored. Rows of a port are evicted
    when they pass all its tests of `evict_before` (none: never), of which the first is of that column. Rows that pass
    the tests of `late` are rejected; without such tests no row is late. The state is that of `inner`, which alone
    identifies the op.
    """

    inner: AggregateSpec | DistinctSpec | SetOpSpec | TopNSpec | JoinSpec
    order: tuple[str, ...]
    evict_before: tuple[tuple[WatermarkTest, ...], ...]
    late: tuple[tuple[WatermarkTest, ...], ...] = ()
    delayed: tuple[bool, ...] = ()


KernelSpec = (
    AggregateSpec
    | EvictingSpec
    | DistinctSpec
    | SetOpSpec
    | TopNSpec
    | TableSpec
    | WindowAggregateSpec
    | AssignWindowsSpec
    | GateSpec
    | GatedAggregateSpec
    | HoldBackSpec
    | TemporalFilterSpec
    | JoinSpec
    | LookupJoinSpec
    | IntervalJoinSpec
)


def spec_per_bucket(spec: KernelSpec, buckets: int) -> KernelSpec:
    """The spec for one of `buckets` buckets: `max_groups` is divided among them. Keys spread evenly, so that together
    they come close to the limit."""
    match spec:
        case GatedAggregateSpec(inner=inner):
            share = spec_per_bucket(inner, buckets)
            assert isinstance(share, AggregateSpec | WindowAggregateSpec)
            return replace(spec, inner=share)
        case WindowAggregateSpec(aggregate=aggregate):
            share = spec_per_bucket(aggregate, buckets)
            assert isinstance(share, AggregateSpec)
            return replace(spec, aggregate=share)
        case AggregateSpec(max_groups=int(limit)) if buckets > 1:
            return replace(spec, max_groups=-(-limit // buckets))
    return spec
