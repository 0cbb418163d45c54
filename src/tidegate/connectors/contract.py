"""The connector contract: what a source and a sink are, and what the runtime gives them.

A source is exactly one of three things, decided once from its options:

    StreamSource    Spark reads it as a streaming frame
    CapturedSource  a thread of the driver follows it and appends to the insert log
    PolledSource    the whole table is read at the start and again on a timer or on REFRESH TABLE

A sink states what it can apply in its `abilities`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from tidegate.catalog.bus import is_bus
from tidegate.core.options import Bag
from tidegate.core.schema import Schema
from tidegate.errors import Error
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Position = dict[str, Any]


@dataclass(frozen=True)
class SourceSpec:
    """A relation that a connector fills. `options` are the user's as written, already validated; `key` is empty for a
    relation without one. A relation without columns feeds the event bus. `references`: `${NAME}` in a value is one;
    not so in folders of earlier versions."""

    kind: str
    relation: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()
    references: bool = False


@dataclass(frozen=True)
class SinkSpec:
    """A sink, and the name, columns and key (empty if it has none) of the relation that it reads."""

    kind: str
    name: str
    columns: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    key: tuple[str, ...] = ()
    reads: str = ""

    @property
    def events(self) -> bool:
        """True if the sink receives events of the bus instead of changes of a view."""
        return is_bus(self.reads)


@dataclass(frozen=True)
class SourceContext:
    """Where a stream runs. `folder` is for the source's own files; `once`: read what exists now, then end; `start`: the
    position to continue from under a new checkpoint; `without`: files that are left out, since they cannot be read."""

    folder: Path
    once: bool = False
    start: Position | None = None
    without: Sequence[str] = ()


@dataclass(frozen=True)
class StreamSource(ABC):
    """Rows that Spark reads as a stream."""

    spec: SourceSpec

    @property
    def bounded(self) -> bool:
        """True if the stream ends by itself when a pipeline runs once."""
        return True

    @abstractmethod
    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        """Return a streaming frame of the relation's columns, then `__w` (1, or -1 for a delete), `__seq` (order of
        arrival within a step), `__error` (why a row cannot be read, else NULL) and `__raw` (its text, else NULL)."""

    @abstractmethod
    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        """Return the position up to which rows have been read, for `stream` to continue from under a new checkpoint.

        `offset` is the last one committed for this source (None: none yet), `log` the folder that Spark's checkpoint
        keeps for it, `start` the position that this checkpoint itself began with.
        """

    def failure(self, text: str) -> Error | None:
        """Return the error to show for a step that failed with this text, or None if the source does not know it."""
        return None


class Partitioned(ABC):
    """A stream of several partitions, each with its own watermark: its frame has one more column, `__seen_shard`, the
    name of the row's partition."""

    @property
    @abstractmethod
    def partition_idle_us(self) -> int:
        """Microseconds without a row after which a partition no longer holds back the watermark."""

    @abstractmethod
    def partitions_at(self, offset: str) -> list[str]:
        """Return the names of all partitions in an offset."""


class Remote(ABC):
    """A stream from a server that may be unreachable for some time."""

    @abstractmethod
    def is_connection_failure(self, text: str) -> bool:
        """True if a step that failed with this text can succeed once the server is back."""

    @abstractmethod
    def reachable(self) -> bool:
        """True if the server answers now."""


class Unreadable(NamedTuple):
    """A file that a step failed at, as Spark names it, and why."""

    path: str
    reason: str


class FileStream(ABC):
    """A stream of files. The pipeline goes on without one that cannot be read, and reads it again when it has changed.
    Paths are those of `_metadata.file_path`."""

    @abstractmethod
    def unreadable(self, text: str) -> Unreadable | None:
        """Return the file that a step failed at with this text; None if it failed for another reason."""

    @abstractmethod
    def listed(
        self, log: Path, after: str | None, until: str | None, start: Position | None
    ) -> Sequence[tuple[str, int]]:
        """Return the files between two offsets that were not read before `start`, and when each was last written as it
        was listed, in milliseconds."""

    @abstractmethod
    def logged_path(self, log: Path, path: str) -> str | None:
        """Return the path of a file of this source, however it is written; None if it is not one of its files."""

    @abstractmethod
    def forgetting(self, position: Position, paths: Sequence[str]) -> Position:
        """Return a position at which these files are not read yet."""


class ParquetFiles(ABC):
    """A stream whose rows are in parquet files, which workers can read without Spark's readers."""

    @abstractmethod
    def new_files(self, spark: SparkSession, context: SourceContext) -> DataFrame | None:
        """Return a streaming frame of the new files: `path`, and `written`, a number that orders the rows of a file
        after those of older files. None if only Spark can read them."""


@dataclass(frozen=True)
class PolledSource(ABC):
    """A table that is read as a whole instead of streamed."""

    spec: SourceSpec

    @property
    def poll_interval_us(self) -> int | None:
        """Microseconds between two reads; None: only on REFRESH TABLE."""
        return None

    @abstractmethod
    def content(self, spark: SparkSession) -> pa.Table:
        """Return all rows of the table, with the columns of `StreamSource.stream`."""


Rows = tuple[str, pa.Table, int]
"""A relation (the bus, or one that a connector fills), rows of its columns, and their weight: 1, -1 for deletes, 0 to
delete all rows of the relation. A column `__w` in the rows overrides the weight."""


class RejectedRow(NamedTuple):
    """A row that could not be read."""

    relation: str
    code: str
    message: str
    raw: str


class Intake(Protocol):
    """Where a capture appends what it has read: the insert log."""

    @property
    def stopped(self) -> threading.Event:
        """Set when the capture must end."""
        ...

    @property
    def position(self) -> Any:
        """The position appended last, in this process or an earlier one; None if there is none."""
        ...

    def append(self, rows: Sequence[Rows], position: Any, rejected: Sequence[RejectedRow] = ()) -> None:
        """Append rows and the position behind them (any JSON), atomically and durably. All rows of one call arrive in
        the same step."""
        ...


@dataclass(frozen=True)
class CaptureContext:
    """Where a capture runs. `owner` is unique to the data folder; `now` is the processing clock in microseconds."""

    owner: str
    folder: Path
    now: Callable[[], int]


class Capture(ABC):
    """Follows a server from a thread of the driver. An OSError means that the server is unreachable: the runtime tries
    again. Any other error ends the pipeline."""

    @abstractmethod
    def catch_up(self, intake: Intake) -> None:
        """Append what exists at the moment of the call, the whole content of tables first, and return."""

    @abstractmethod
    def follow(self, intake: Intake) -> None:
        """Append what arrives until `intake.stopped` is set. Starts like `catch_up`."""

    def drop_remote_state(self) -> None:
        """Remove what the capture has created at the server (a replication slot, say): its relations were dropped."""
        return

    def metrics(self) -> Mapping[str, float]:
        """Return gauges by name, such as `slot_lag_bytes`."""
        return {}

    def close(self) -> None:
        """Release what the capture holds between two calls."""
        return


@dataclass(frozen=True)
class CapturedSource(ABC):
    """A source that the driver follows by itself, into the insert log."""

    spec: SourceSpec

    @property
    @abstractmethod
    def session(self) -> str:
        """Sources of the same session share one capture, so that their changes stay in one order."""

    @abstractmethod
    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        """Return the capture of this source and of the other sources of its session."""


Source = StreamSource | CapturedSource | PolledSource


@dataclass(frozen=True)
class SinkAbilities:
    """What a sink can apply.

    `accepts` is the most general changelog kind it takes. `needs_key`: it replaces rows by their key.
    `changelog_option` is what to write in its options to get every change. `dead_letters`: it sets aside what it cannot
    deliver.
    """

    accepts: Kind
    needs_key: bool = False
    changelog_option: str = "mode = 'changelog'"
    dead_letters: bool = False


@dataclass(frozen=True)
class SinkContext:
    """Where a sink runs.

    `owner` names this creation of the sink in this pipeline, so that a sink never mistakes what another one left in the
    same place for its own. `folder` is for the sink's own files. `replay` yields (step, changes) after a step again, as
    far back as the step log reaches. `ending` is set when the pipeline ends and waits no longer: a sink in the middle
    of a step that knows how far it is raises `Interrupted`.
    """

    name: str
    folder: Path
    owner: str
    replay: Callable[[int], Iterator[tuple[int, pa.Table]]] = lambda after: iter(())
    ending: threading.Event = field(default_factory=threading.Event)


class Interrupted(Exception):
    """A sink left a step unfinished because the pipeline ends. It continues there next time."""


class OutputClosed(BrokenPipeError):
    """The reader of this process's output is gone, so the pipeline ends."""


class RetryAfter(OSError):
    """A sink cannot apply a step now. It keeps count of its attempts itself, and asks to be called again after `pause`
    seconds."""

    def __init__(self, reason: str, pause: float) -> None:
        super().__init__(reason)
        self.pause = pause


@dataclass
class Sink(ABC):
    """Applies the changes of a view at a destination, each step exactly once."""

    spec: SinkSpec

    @property
    @abstractmethod
    def abilities(self) -> SinkAbilities:
        """What the sink can apply, with the options it was given."""

    @abstractmethod
    def open(self, context: SinkContext) -> None:
        """Prepare to write. Rejects a destination that belongs to somebody else."""

    @abstractmethod
    def write(self, step: int, changes: pa.Table) -> None:
        """Apply a step: columns op, weight, step, then the view's. A repeated step replaces itself."""

    @abstractmethod
    def last_step(self) -> int | None:
        """Return the last step applied, from the sink's own durable record."""

    @abstractmethod
    def close(self) -> None:
        """Release what `open` acquired."""

    def interrupt(self) -> None:
        """Abort a request that is under way: the pipeline ends. Called from another thread."""
        return

    def dead_letter_count(self) -> int:
        """Return how many dead letters the sink has written since it was built."""
        return 0


ColumnPolicy = Literal["required", "optional", "none"]


@dataclass(frozen=True)
class Connector:
    """What an entry point of the group `tidegate.connectors` refers to: how to build a source, a sink or both.

    Builders take their options out of the bag; what they leave is an error. `columns` says whether a source must have
    columns, may be without (it then feeds the event bus), or never has any.
    """

    source: Callable[[SourceSpec, Bag], Source] | None = None
    sink: Callable[[SinkSpec, Bag], Sink] | None = None
    columns: ColumnPolicy = "required"
