"""What a format is: an encoding of values, an envelope around them, and the columns that pass between the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from tidegate.core.columns import ERROR, RAW, WEIGHT
from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema, names
from tidegate.errors import Error
from tidegate.traits.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = "__key"
VALUE = "__value"
PART = "__row_of_record"


@dataclass(frozen=True)
class Layout:
    """What a format has to know of the relation whose rows it reads or writes: its name for messages, the columns that
    are in the records (not those that a transport fills), and the key, empty if there is none."""

    relation: str
    columns: Schema
    key: tuple[str, ...] = ()


class Decoder(Protocol):
    """Records into rows."""

    def rows(self, frame: DataFrame) -> DataFrame:
        """From a frame (a stream or not) with the binary columns `__key` and `__value`, either of which may be NULL,
        and any others: the others as they are, then the columns of the layout, `__w` (1, or -1 for a row that goes),
        `__row_of_record` (0, 1: a record may be two rows, in this order), `__error` (why it cannot be read, else NULL)
        and `__raw` (its text if it cannot be read, else NULL)."""
        ...

    def failure(self, text: str) -> Error | None:
        """The error for the user when a step failed with this text and the format knows why."""
        ...


class Encoder(Protocol):
    """Changes into records."""

    @property
    def takes(self) -> Kind:
        """The most general kind of changes that it can say."""
        ...

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of each record, in order. `changes` has the columns op, weight and step, then those of the
        layout; they are found by place, for a view may have columns of the same names."""
        ...


ROW = "__row"
BEFORE = "__before"
AFTER = "__after"
OP = "__op"
FAULT = "__fault"
_OF_RECORD = (KEY, VALUE)


class Reader(Protocol):
    """Values of records into structs, for envelopes to make rows of."""

    @property
    def raw(self) -> str:
        """An expression on what `rows` and `changes` return: the value as text that can be shown."""
        ...

    def rows(self, frame: DataFrame) -> DataFrame:
        """The frame, with `__row`, the columns of the layout, and `__fault`, why the value cannot be read, else NULL.
        Of a NULL value both are NULL."""
        ...

    def keys(self) -> dict[str, str]:
        """Expressions on what `rows` returns: the key columns as the record's key says them, NULL if it does not."""
        ...


class ChangeReader(Reader, Protocol):
    """An encoding that can say a change."""

    def changes(self, frame: DataFrame) -> DataFrame:
        """The frame, with `__before` and `__after`, which may be NULL, `__op` and `__fault`."""
        ...


@dataclass(frozen=True)
class Change:
    """A change of a Debezium envelope: places of its rows in a table, None if there is none."""

    op: str
    before: int | None
    after: int | None
    step: int

    @property
    def row(self) -> int:
        """The row whose key is the record's key."""
        place = self.before if self.after is None else self.after
        assert place is not None
        return place


class Writer(Protocol):
    """Rows into values of records."""

    def rows(self, rows: pa.Table) -> list[bytes]:
        """Each row as a value."""
        ...


class ChangeWriter(Writer, Protocol):
    """An encoding that can say a change."""

    def changes(self, rows: pa.Table, changes: Sequence[Change]) -> list[bytes]:
        """Each change as the value of a Debezium record."""
        ...

    def tagged(self, rows: pa.Table, ops: Sequence[str], weights: Sequence[int], steps: Sequence[int]) -> list[bytes]:
        """Each row with its op, weight and step."""
        ...


class KeyWriter(Protocol):
    """Rows into keys of records."""

    def keys(self, rows: pa.Table) -> list[bytes | None]: ...


def others(frame: DataFrame) -> list[str]:
    """The columns of a frame that its transport added."""
    return [name for name in frame.columns if name not in _OF_RECORD]


def finished(frame: DataFrame, carried: Sequence[str], columns: Schema, error: str, raw: str) -> DataFrame:
    """The columns that a decoder returns, of a frame that has them all but for the error and the text."""
    kept = [identifier(name) for name in (*carried, *names(columns), WEIGHT, PART)]
    frame = frame.selectExpr("*", f"{error} AS {ERROR}")
    return frame.selectExpr(*kept, ERROR, f"IF({ERROR} IS NULL, NULL, {raw}) AS {RAW}")


_ADDED = 3


@dataclass(frozen=True)
class Parts:
    """Op, weight and step of each row, and the rows under the names of the layout."""

    ops: list[str]
    weights: list[int]
    steps: list[int]
    rows: pa.Table


def split(changes: pa.Table, layout: Layout) -> Parts:
    """Columns are found by place: a view may have columns named op, weight or step itself."""
    rows = changes.select(list(range(_ADDED, changes.num_columns))).rename_columns(list(names(layout.columns)))
    ops, weights, steps = (changes.column(place).to_pylist() for place in range(_ADDED))
    return Parts(ops, weights, steps, rows)
