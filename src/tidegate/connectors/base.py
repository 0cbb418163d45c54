"""What a source and a sink are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from tidegate.catalog.schema import Schema
from tidegate.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEIGHT = "__w"
SEQ = "__seq"
ERROR = "__error"
RAW = "__raw"
SHARD = "__seen_shard"

Kind = Literal["append", "upsert", "changelog"]
Position = dict[str, Any]


@dataclass(frozen=True)
class SourceSpec:
    """A relation that a connector fills. `options` are as the user wrote them, and have been checked. `key` is
    empty for a relation without one."""

    kind: str
    relation: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class SinkSpec:
    """A sink, and the columns and the key (empty if it has none) of the view that it is fed by."""

    kind: str
    name: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()


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
    same place is never taken for its own. `folder` is for files of its own."""

    name: str
    folder: Path
    owner: str


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
