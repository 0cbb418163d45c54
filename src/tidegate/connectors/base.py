"""What a source and a sink are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from tidegate.catalog.bus import is_bus
from tidegate.core.schema import Schema
from tidegate.errors import Error
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Position = dict[str, Any]


@dataclass(frozen=True)
class SourceSpec:
    """A relation that a connector fills. `options` are as the user wrote them, and have been checked. `key` is
    empty for a relation without one. One without columns feeds the event bus."""

    kind: str
    relation: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class SinkSpec:
    """A sink, and the name, the columns and the key (empty if it has none) of the relation that it is fed by."""

    kind: str
    name: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()
    reads: str = ""

    @property
    def events(self) -> bool:
        """Whether it gets events of the bus rather than changes of a view."""
        return is_bus(self.reads)


@dataclass(frozen=True)
class SourceContext:
    """Where a source runs. `folder` is for files of its own; `once`: read what is there now and end; `start`: the
    position to go on from when Spark's checkpoint is new."""

    folder: Path
    once: bool = False
    start: Position | None = None


@dataclass(frozen=True)
class SinkContext:
    """Where a sink runs. `owner` names this creation of the sink in this pipeline, so that what another one left in the
    same place is never taken for its own. `folder` is for files of its own. `replay` gives what was written after a
    step once more, as far back as the step log goes: (step, changes). `ending`: the pipeline ends and waits no longer,
    so a sink that is in the middle of a step, and knows how far it is, breaks off."""

    name: str
    folder: Path
    owner: str
    replay: Callable[[int], Iterator[tuple[int, pa.Table]]] = lambda after: iter(())
    ending: threading.Event = field(default_factory=threading.Event)


class BrokenOff(Exception):
    """A sink left a step unfinished because the pipeline ends. It goes on there next time."""


class ReaderGone(BrokenPipeError):
    """Nobody reads any more what this process prints, so there is nobody to go on for."""


class Source(Protocol):
    """Rows from elsewhere, as a stream."""

    @property
    def spec(self) -> SourceSpec: ...

    @property
    def bounded(self) -> bool:
        """Whether it ends by itself when a pipeline runs once."""
        ...

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        """A streaming frame of the relation's columns, then `__w` (1, -1 for a delete), `__seq` (order of arrival in a
        step), `__error` (why a row cannot be read, else NULL) and `__raw` (its text, else NULL)."""
        ...

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        """What has been read, so that `stream` can go on from there under a new checkpoint.

        `offset` is the last one committed for this source (None: nothing yet), `log` the folder that Spark's checkpoint
        keeps for it, `start` the position that this checkpoint itself began with.
        """
        ...

    def failure(self, text: str) -> Error | None:
        """The error for the user when a step failed with this text and the source knows why."""
        ...


@runtime_checkable
class Sharded(Protocol):
    """A source of several partitions, each with a time of its own: its frame has a column `__seen_shard` too, the name
    of the row's partition."""

    @property
    def shard_idle(self) -> int:
        """After so many microseconds without a row a partition no longer holds up the others."""
        ...

    def shards(self, offset: str) -> list[str]:
        """The partitions that there are, by an offset."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A source whose other end may be away for a time."""

    def away(self, text: str) -> bool:
        """Whether a step that failed with this text may go well later."""
        ...

    def reachable(self) -> bool:
        """Whether the other end is there now."""
        ...


@runtime_checkable
class Refreshed(Protocol):
    """A table that may be read as a whole at times, rather than as a stream."""

    @property
    def refreshed(self) -> bool:
        """Whether it is."""
        ...

    @property
    def refresh_every(self) -> int | None:
        """After how many microseconds it is read again; None: when it is told to."""
        ...

    def content(self, spark: SparkSession) -> pa.Table:
        """All rows that make the table now, with the columns that `Source.stream` gives."""
        ...


Rows = tuple[str, pa.Table, int]
"""A relation (the bus, or one that a connector fills), rows of its columns, and their weight: 1, or -1 for rows that
go. A column `__w` in the rows takes the place of the weight."""

Refused = tuple[str, str, str, str]
"""A row that could not be read: the relation, an error code, a message, the row as text."""


class Intake(Protocol):
    """Where a capture puts what it has read: the insert log."""

    @property
    def stopped(self) -> threading.Event:
        """Set when the capture shall end."""
        ...

    @property
    def position(self) -> Any:
        """The position that came with the last rows, however long ago that was; None if there were none."""
        ...

    def append(self, rows: Sequence[Rows], position: Any, refused: Sequence[Refused] = ()) -> None:
        """Puts rows and the position behind them (any JSON) on record, together and durably, as one step or part of
        one."""
        ...


@dataclass(frozen=True)
class CaptureContext:
    """Where a capture runs. `owner` is the same for all captures of a data folder, and differs from that of any other
    one; `now` is the processing clock in microseconds."""

    owner: str
    folder: Path
    now: Callable[[], int]


class Capture(Protocol):
    """Follows what happens elsewhere, from a thread of the driver. An OSError means that the other end is away: it is
    tried again. Any other error is the user's to mend."""

    def catch_up(self, intake: Intake) -> None:
        """Takes in what is there at the moment of the call, the whole content of tables first, and returns."""
        ...

    def follow(self, intake: Intake) -> None:
        """Takes in what comes until `intake.stopped`. Begins as `catch_up` does."""
        ...

    def forget(self) -> None:
        """Removes what it has left at the other end: the relations are dropped."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Figures by name, such as `slot_lag_bytes`."""
        ...


@runtime_checkable
class Captured(Protocol):
    """A source that the driver follows by itself, into the insert log, rather than Spark."""

    @property
    def spec(self) -> SourceSpec: ...

    @property
    def captured(self) -> bool:
        """Whether it is (a source may also be read in another way)."""
        ...

    @property
    def session(self) -> str:
        """Captures of the same session are one, so that what belongs together stays together."""
        ...

    def capture(self, others: Sequence[Captured], context: CaptureContext) -> Capture:
        """The capture of this source and of the others of its session."""
        ...


AnySource = Source | Captured


@runtime_checkable
class FileNames(Protocol):
    """A source whose rows are in parquet files."""

    def paths(self, spark: SparkSession, context: SourceContext) -> DataFrame | None:
        """A streaming frame of the new files alone: `path`, and `written`, a number by which the rows of a file come
        after those of older files. None if only Spark can read them."""
        ...


class Sink(Protocol):
    """Changes of a view to elsewhere, each step exactly once."""

    @property
    def spec(self) -> SinkSpec: ...

    @property
    def takes(self) -> Kind:
        """The most general kind of changes that it can apply."""
        ...

    def open(self, context: SinkContext) -> None:
        """Prepares to write; refuses a place that is not its own."""
        ...

    def write(self, step: int, changes: pa.Table) -> None:
        """Applies a step: columns op, weight, step, then the view's. A repeated step overwrites itself."""
        ...

    def last_step(self) -> int | None:
        """The last step applied, by the sink's own durable record."""
        ...

    def close(self) -> None:
        """Lets go of what `open` took."""
        ...
