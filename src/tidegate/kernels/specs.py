"""What each stateful operator is told at CREATE: plain immutable data, picklable, part of the circuit's fingerprint."""

from __future__ import annotations

from dataclasses import dataclass


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
class AggregateSpec:
    """GROUP BY `keys`. `append_only`: the input never retracts, so extremes need no multiset. No keys: one group that
    exists from the first step on, if `scalar` (a global aggregate)."""

    keys: tuple[str, ...]
    calls: tuple[Call, ...]
    append_only: bool
    scalar: bool


@dataclass(frozen=True)
class DistinctSpec:
    """Each row once, as long as it is in the input at all."""

    columns: tuple[str, ...]
    append_only: bool


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
    """The content of a table. Keyed (last writer wins) if `key` is not empty, else a bag."""

    relation: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    append_only: bool


KernelSpec = AggregateSpec | DistinctSpec | SetOpSpec | TopNSpec | TableSpec
