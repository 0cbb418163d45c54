"""Specs of the joins. Port 0 is the left side, port 1 the right side. Each port is hashed by its columns of `keys`, in
order, so that rows that can match have the same `__h`."""

from __future__ import annotations

from dataclasses import dataclass

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "inner", "left", "right", "full", "semi", "anti"
ROWTIME, PROCTIME = "rowtime", "proctime"


@dataclass(frozen=True)
class KeyPair:
    """An equality of two columns of one type. NULL equals nothing, unless `null_safe` (`<=>`)."""

    left: str
    right: str
    null_safe: bool = False


@dataclass(frozen=True)
class Comparison:
    """A further join condition `left op right` on columns of one type; `op` is one of = <> < <= > >= <=>.

    NULL on either side makes it false (except for `<=>`). As in Spark, NaN equals itself and is above all
    other numbers.
    """

    left: str
    op: str
    right: str


@dataclass(frozen=True)
class OutputColumn:
    """Output column `name`, taken from `column` of a side. It is NULL in rows padded for that side."""

    name: str
    side: int
    column: str


@dataclass(frozen=True)
class JoinSpec:
    """An incremental join, exact under changes of both sides.

    `kind`: inner, left, right, full, semi or anti; semi and anti output rows of the left side. Without `keys` every row
    is compared with every row. `append_only`: per side, whether it never retracts.
    """

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[OutputColumn, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    conditions: tuple[Comparison, ...] = ()
    append_only: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class EarlyFire:
    """Emits an unmatched outer row, padded, after `delay` microseconds, before it is known to stay unmatched.

    `mode` rowtime: when the smaller watermark of both sides has reached the row's time plus the delay. `mode` proctime:
    when the processing clock has moved by the delay since the row arrived.
    """

    delay: int
    mode: str


@dataclass(frozen=True)
class IntervalJoinSpec:
    """A join of rows whose times also satisfy `lower <= right time - left time <= upper` (microseconds, inclusive).

    `times` names an Int64 column of each port (microseconds since 1970). `watermarks` names the watermark of each
    side's time (None: it has none) and `watermark_types` the Spark type of its values. `delayed`: rows of that side are
    compared with the watermark of the previous step. `proctime`: a row's time is the processing time of the step it
    arrives in, whatever the column holds, and the clock is the watermark of both sides. `correction_id`, with `early`:
    an output column (Int64) that links the retraction of a padded row to the row that corrects it, and is NULL
    elsewhere.
    """

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[OutputColumn, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    times: tuple[str, str]
    lower: int
    upper: int
    watermarks: tuple[str | None, str | None] = (None, None)
    watermark_types: tuple[str, str] = ("timestamp", "timestamp")
    delayed: tuple[bool, bool] = (False, False)
    conditions: tuple[Comparison, ...] = ()
    append_only: tuple[bool, bool] = (False, False)
    proctime: bool = False
    early: EarlyFire | None = None
    correction_id: str | None = None


@dataclass(frozen=True)
class LookupJoinSpec:
    """Joins each row of an append-only left side with the current row of a keyed right side.

    Changes of the right side apply first; rows already emitted are never revised. `kind`: inner or left. `keys` name
    the whole key of the right side, so that a row finds at most one.
    """

    kind: str
    keys: tuple[KeyPair, ...]
    outputs: tuple[OutputColumn, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...]]
    conditions: tuple[Comparison, ...] = ()
