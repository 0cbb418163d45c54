"""The contract of a kernel: a pure function of one step, over state that it reads and writes through tables.

A kernel runs one bucket of one op. Frames are Polars. Every input frame has the port's columns plus `__w` (Int64, the
weight) and `__h` (Int64, the hash of the port's key), and any further hashes that the port declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

WatermarkValue = int | float | str | None
"""The value of a watermark in the physical form of its column: microseconds, days, a number; a decimal as text
("12.50"). None while it has no value yet; `INFINITE` once no more rows will come."""

INFINITE = "inf"


@dataclass(frozen=True)
class Clock:
    """The logical time of a step. A step that is replayed gets the same clock.

    `watermarks` are those of this step and `previous_watermarks` those of the previous one, by name.
    `previous_time_us` is the processing time of the previous step, 0 if there was none.
    """

    step: int
    time_us: int
    watermarks: Mapping[str, WatermarkValue] = field(default_factory=dict)
    previous_watermarks: Mapping[str, WatermarkValue] = field(default_factory=dict)
    previous_time_us: int = 0


@dataclass(frozen=True)
class RowError:
    """A rejected row, for `system.errors`. `count`: the number of equal rejections it stands for."""

    relation: str
    code: str
    message: str
    row: str
    count: int = 1


@dataclass
class Delta:
    """The result of one step: changed rows (output columns plus `__w`) or None, and rejected rows.

    `late` are late rows of a port (its columns plus `__w`). `timer_us`: the kernel must run again at this processing
    time even without input (it may be too early, never too late). `evicted` counts rows of state that were evicted
    because no input can change them any more.
    """

    rows: pl.DataFrame | None = None
    errors: list[RowError] = field(default_factory=list)
    late: pl.DataFrame | None = None
    timer_us: int | None = None
    evicted: int = 0


OK, LATE, NO_TIME = 0, 1, 2
"""How `Kernel.classify` classifies an incoming row."""


class Segments(Protocol):
    """Stored state: named blobs, ordered by name."""

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, blob: bytes) -> None: ...
    def delete(self, name: str) -> None: ...
    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        """Blobs with low <= name < high, in order of name."""
        ...


class Table(Protocol):
    """Rows of state, at most one per identity (`ident` columns, NULLs equal), ordered by the hash `__h`."""

    schema: pl.Schema
    within: str | None

    def lookup(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The stored rows whose hash and identity equal those of a row of `keys` (which has `__h` and the ident)."""
        ...

    def match(self, keys: pl.DataFrame) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
        """As `lookup`, with the index of the row of `keys` that each stored row matches."""
        ...

    def groups(self, hashes: pl.Series) -> pl.DataFrame:
        """All stored rows with one of `hashes`."""
        ...

    def scan(self) -> pl.DataFrame:
        """All stored rows."""
        ...

    @property
    def count(self) -> int:
        """The number of rows, including writes of this step."""
        ...

    def lowest(self) -> int | None:
        """A lower bound of all hashes, including writes of this step; None if the table is empty."""
        ...

    def between(self, low: int | None, high: int | None, pending: bool = False) -> pl.DataFrame:
        """The stored rows whose hash is at least `low` and below `high` (None: no limit). `pending`: as the writes of
        this step so far leave them."""
        ...

    def evict_below(self, high: int | None) -> pl.DataFrame:
        """Deletes and returns all rows whose hash is below `high` (None: all), including writes of this step so far.
        The cost depends on the rows evicted, not on those stored."""
        ...

    def write(
        self, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None = None, grown: int | None = None
    ) -> None:
        """Upserts rows by identity and deletes others (`__h` and ident columns suffice) at the step's commit; until
        then reads return the previous content. `grown`: by how many rows the table grows, if the caller knows."""
        ...


class State(Protocol):
    """The state of one bucket of one op.

    `columns` of a table maps names to Polars types, without `__h`. Where many rows may share a hash, `within` names a
    second hash column by which they are ordered among themselves.
    """

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], ident: Sequence[str], within: str | None = None
    ) -> Table: ...

    def find_table(self, name: str, ident: Sequence[str] | None) -> Table | None:
        """A table with the columns it was stored with; None if nothing was ever stored in it. Without `ident`, rows are
        identified by all columns that do not begin with `__`."""
        ...


class Kernel(Protocol):
    """A stateful operator. Instances hold no state and are shared: everything that lasts is in `state`."""

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """OK, LATE or NO_TIME (Int8) for each incoming row, before `combine`; None if all are OK. Other rows are not
        processed."""
        ...

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Reduces the rows of a step before they are shuffled to their bucket (partial aggregation, a combiner).
        Associative: rows may be combined several times, in any grouping. May change columns but keeps `__h`."""
        ...

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        """Runs one step. `inputs[i]` are the combined rows of port i (None: no input). `first`: no step ran before."""
        ...

    def content(self, state: State) -> pl.DataFrame | None:
        """The current output (output columns plus `__w`), which a consumer that is added later starts from. None or an
        empty frame if it is empty."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A kernel whose `combine` groups rows by their columns."""

    @property
    def hashes_after_combine(self) -> bool:
        """True if `combine` accepts rows without `__h`, so that the hash is computed for its fewer output rows."""
        ...


class NeverLate:
    """Mixin of kernels for which no row is late."""

    def classify(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return None
