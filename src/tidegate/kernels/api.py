"""What a kernel is: a pure function of one step, over state it reads and writes through tables of segments.

A kernel belongs to one bucket of one op. Frames are Polars. Every input frame carries the port's columns plus
`__w` (Int64, the weight) and `__h` (Int64, hash of the port's key), and any further hashes the port declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

Bound = int | float | str | None
"""The value of a line, as a column of its type is stored: microseconds, days, a number; a decimal as text ("12.50").
None while there is none yet; `INFINITE` when no more rows will come."""

INFINITE = "inf"


@dataclass(frozen=True)
class Clock:
    """The logical time of a step: the same whenever the step is run again.

    `lines` are the waterlines that hold in this step, `before` those that held in the step before, both by name;
    `before_us` is the time of the step before, 0 if there was none.
    """

    step: int
    time_us: int
    lines: Mapping[str, Bound] = field(default_factory=dict)
    before: Mapping[str, Bound] = field(default_factory=dict)
    before_us: int = 0


@dataclass(frozen=True)
class RowError:
    """A row that was refused: it goes to `system.errors`. `times`: it stands for so many."""

    relation: str
    code: str
    message: str
    row: str
    times: int = 1


@dataclass
class Delta:
    """What a kernel produced in one step: changed rows (output columns plus `__w`), or None, and what it refused.

    `late` are rows of a port that came too late (its columns plus `__w`). `wake_us` is not after the next processing
    time at which the kernel has something to do even if nothing comes. `dropped` counts rows of state that were
    forgotten because no row can change them any more.
    """

    rows: pl.DataFrame | None = None
    errors: list[RowError] = field(default_factory=list)
    late: pl.DataFrame | None = None
    wake_us: int | None = None
    dropped: int = 0


OK, LATE, NO_TIME = 0, 1, 2
"""What a kernel says of a row before it is let in."""


class Segments(Protocol):
    """The one door to stored state: named blobs, ordered by name."""

    def get(self, name: str) -> bytes | None: ...
    def put(self, name: str, blob: bytes) -> None: ...
    def delete(self, name: str) -> None: ...
    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        """Blobs with low <= name < high, in order of name."""
        ...


class Table(Protocol):
    """Rows of state, at most one per identity (`ident` columns, NULLs equal), each with the hash it is filed under."""

    schema: pl.Schema

    def lookup(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The stored rows whose hash and identity equal those of a row of `keys` (which has `__h` and the ident)."""
        ...

    def match(self, keys: pl.DataFrame) -> tuple[npt.NDArray[np.intp], pl.DataFrame]:
        """As `lookup`, with the number of the row of `keys` that each found row belongs to."""
        ...

    def groups(self, hashes: pl.Series) -> pl.DataFrame:
        """All stored rows filed under one of `hashes`."""
        ...

    def scan(self) -> pl.DataFrame:
        """All stored rows."""
        ...

    @property
    def count(self) -> int:
        """How many rows are stored, with what was written in this step."""
        ...

    def lowest(self) -> int | None:
        """No row is filed below this, with what was written in this step; there may be none at it any more."""
        ...

    def between(self, low: int | None, high: int | None) -> pl.DataFrame:
        """The stored rows whose hash is at least `low` and below `high` (None: no limit)."""
        ...

    def take_below(self, high: int | None) -> pl.DataFrame:
        """Forgets all rows whose hash is below `high` (None: all), those written in this step so far too, and gives
        them. Costs what is forgotten, not what is stored."""
        ...

    def write(
        self, upserts: pl.DataFrame | None, deletes: pl.DataFrame | None = None, grown: int | None = None
    ) -> None:
        """Stores rows (replacing those of the same identity) and forgets others (`__h` and ident columns suffice), once
        the step is over: until then reads give what was there before. `grown`: by how many rows, if that is known."""
        ...


class State(Protocol):
    """The state of one bucket of one op. `columns` of a table maps names to Polars types, without `__h`. Where a group
    may be large, `within` names a second hash column under which its rows are filed inside the group."""

    def table(
        self, name: str, columns: Mapping[str, pl.DataType], ident: Sequence[str], within: str | None = None
    ) -> Table: ...

    def stored(self, name: str, ident: Sequence[str] | None) -> Table | None:
        """A table with the columns it was stored with; None if nothing was ever stored in it. No `ident`: its plain
        columns, all but those that begin with `__`."""
        ...


class Kernel(Protocol):
    """One stateful operator. Instances are stateless and shared: everything that lasts is in `state`."""

    def judge(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        """OK, LATE or NO_TIME (Int8) for each row as it comes, before `combine`; None: all are welcome. Rows that are
        not OK go no further."""
        ...

    def combine(self, port: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Shrinks a step's rows before they travel to their bucket (partial aggregation). Associative; may change
        columns but keeps `__h`. Rows combined several times, in any grouping, mean the same."""
        ...

    def step(self, inputs: Sequence[pl.DataFrame | None], clock: Clock, state: State, first: bool) -> Delta:
        """One step. `inputs[i]` is what `combine` made of port i (None: nothing came). `first`: no step ran before."""
        ...

    def content(self, state: State) -> pl.DataFrame | None:
        """The whole output as it stands (output columns plus `__w`): what a consumer added later begins with. None or
        an empty frame if there is none."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A kernel whose `combine` groups rows by their columns."""

    @property
    def hashed_after(self) -> bool:
        """Whether rows may come to `combine` without `__h`, which is then made of what it leaves: fewer rows."""
        ...


class Welcoming:
    """A kernel to which no row comes too late."""

    def judge(self, port: int, rows: pl.DataFrame, clock: Clock) -> pl.Series | None:
        return None
