"""What joins are told at CREATE. The left side comes by port 0, the right side by port 1, each keyed by its columns of
`keys`, in order, so that rows that can meet have the same `__h`."""

from __future__ import annotations

from dataclasses import dataclass

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "inner", "left", "right", "full", "semi", "anti"
ROWTIME, PROCTIME = "rowtime", "proctime"


@dataclass(frozen=True)
class KeyPair:
    """Rows meet only if these two columns, of one type, are equal: NULL never is, unless `null_safe` (`<=>`)."""

    left: str
    right: str
    null_safe: bool = False


@dataclass(frozen=True)
class Comparison:
    """A further condition: `left op right`, columns of one type on either side; `op` is one of = <> < <= > >= <=>. NULL
    on a side makes it false (except for `<=>`), NaN is equal to itself and above all other numbers, as in Spark."""

    left: str
    op: str
    right: str


@dataclass(frozen=True)
class Taken:
    """An output column: where it comes from. Padded rows have NULL in the columns of the side that is missing."""

    name: str
    side: int
    column: str


@dataclass(frozen=True)
class JoinSpec:
    """An incremental join, exact under changes of both sides. `kind`: inner, left, right, full; semi and anti keep rows
    of the left. No `keys`: every row meets every row. `append_only`: whether each side never retracts."""

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[Taken, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    conditions: tuple[Comparison, ...] = ()
    append_only: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class EarlyFire:
    """An unmatched outer row is padded once it has waited for `delay` microseconds: in `rowtime`, when the smaller
    frontier of the two sides has reached its time plus that; in `proctime`, when the processing clock has moved by that
    since the row came."""

    delay: int
    mode: str


@dataclass(frozen=True)
class IntervalSpec:
    """Rows meet if, beside keys and conditions, `lower <= right time - left time <= upper` (microseconds, inclusive).

    `times` are Int64 columns (microseconds since 1970) of the ports; `lines` name the waterline of each side's time
    (None: it has none), `line_types` are the Spark types in which those are reckoned. `delayed`: that side's rows are
    held against the line of the step before. `proctime`: the time of a row is the processing time of the step in which
    it came, whatever the column says, and the clock is the frontier of both sides. `mark`, with `early`: an output
    column (Int64) that is the same for a padding that is taken back and the row that corrects it, NULL elsewhere.
    """

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[Taken, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    times: tuple[str, str]
    lower: int
    upper: int
    lines: tuple[str | None, str | None] = (None, None)
    line_types: tuple[str, str] = ("timestamp", "timestamp")
    delayed: tuple[bool, bool] = (False, False)
    conditions: tuple[Comparison, ...] = ()
    append_only: tuple[bool, bool] = (False, False)
    proctime: bool = False
    early: EarlyFire | None = None
    mark: str | None = None


@dataclass(frozen=True)
class LookupSpec:
    """Rows of an append-only left side, each with the row of the keyed right side as it stands in that step: changes of
    the right apply first, and what has left is never rewritten. `kind`: inner or left. `keys` name the whole key of the
    right, so that a row finds one row at most."""

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[Taken, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    conditions: tuple[Comparison, ...] = ()
