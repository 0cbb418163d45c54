"""The contract of formats: an encoding of values, an envelope around them, and the columns between the two."""

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
    """The relation whose rows a format reads or writes: its name in messages, the columns that are in the records (not
    those that a transport fills), and the key, empty if there is none."""

    relation: str
    columns: Schema
    key: tuple[str, ...] = ()


class Decoder(Protocol):
    """Makes rows of records."""

    def rows(self, frame: DataFrame) -> DataFrame:
        """Decode a frame (a stream or not) with the binary columns `__key` and `__value`, either of which can be NULL,
        and any others. Returns the others unchanged, then the columns of the layout, `__w` (1, or -1 for a delete),
        `__row_of_record` (0, 1: a record can be two rows, in this order), `__error` (why it cannot be read, else NULL)
        and `__raw` (its text if it cannot be read, else NULL)."""
        ...

    def failure(self, text: str) -> Error | None:
        """Return the error to show for a step that failed with this text, None if the format does not know it."""
        ...


class Encoder(Protocol):
    """Makes records of changes."""

    @property
    def takes(self) -> Kind:
        """The most general changelog kind that it can write."""
        ...

    def records(self, changes: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield key and value of each record, in order. `changes` has the columns op, weight and step, then those of
        the layout, by index: a view can have columns of the same names."""
        ...


ROW = "__row"
BEFORE = "__before"
AFTER = "__after"
OP = "__op"
FAULT = "__fault"
_OF_RECORD = (KEY, VALUE)


class Reader(Protocol):
    """Decodes values of records to structs, which an envelope makes rows of."""

    @property
    def raw(self) -> str:
        """Expression on the result of `rows` and `changes`: the value as valid text."""
        ...

    def rows(self, frame: DataFrame) -> DataFrame:
        """Add `__row`, a struct of the columns of the layout, and `__fault`, why the value cannot be read, else NULL.
        For a NULL value both are NULL."""
        ...

    def keys(self) -> dict[str, str]:
        """Expressions on the result of `rows`: the key columns in the record's key, NULL if it lacks them."""
        ...


class ChangeReader(Reader, Protocol):
    """An encoding that can read changes."""

    def changes(self, frame: DataFrame) -> DataFrame:
        """Add `__before` and `__after`, which can be NULL, `__op` and `__fault`."""
        ...


@dataclass(frozen=True)
class Change:
    """A change of a Debezium envelope: the indexes of its rows in a table, None if there is no such row."""

    op: str
    before: int | None
    after: int | None
    step: int

    @property
    def row(self) -> int:
        """The row whose key is the record's key."""
        index = self.before if self.after is None else self.after
        assert index is not None
        return index


class Writer(Protocol):
    """Encodes rows as values of records."""

    def rows(self, rows: pa.Table) -> list[bytes]:
        """Encode each row as a value."""
        ...


class ChangeWriter(Writer, Protocol):
    """An encoding that can write changes."""

    def changes(self, rows: pa.Table, changes: Sequence[Change]) -> list[bytes]:
        """Encode each change as a Debezium envelope."""
        ...

    def tagged(self, rows: pa.Table, ops: Sequence[str], weights: Sequence[int], steps: Sequence[int]) -> list[bytes]:
        """Encode each row with its op, weight and step."""
        ...


class KeyWriter(Protocol):
    """Encodes rows as keys of records."""

    def keys(self, rows: pa.Table) -> list[bytes | None]: ...


def others(frame: DataFrame) -> list[str]:
    """Return the columns of a frame that its transport added."""
    return [name for name in frame.columns if name not in _OF_RECORD]


def finished(frame: DataFrame, carried: Sequence[str], columns: Schema, error: str, raw: str) -> DataFrame:
    """Select the columns that a decoder returns, and add the error and the raw text."""
    selected = [identifier(name) for name in (*carried, *names(columns), WEIGHT, PART)]
    frame = frame.selectExpr("*", f"{error} AS {ERROR}")
    return frame.selectExpr(*selected, ERROR, f"IF({ERROR} IS NULL, NULL, {raw}) AS {RAW}")


_ADDED = 3


@dataclass(frozen=True)
class Parts:
    """Op, weight and step of each row, and the rows under the names of the layout."""

    ops: list[str]
    weights: list[int]
    steps: list[int]
    rows: pa.Table


def split(changes: pa.Table, layout: Layout) -> Parts:
    """Split changes by index: a view can have columns named op, weight or step itself."""
    rows = changes.select(list(range(_ADDED, changes.num_columns))).rename_columns(list(names(layout.columns)))
    ops, weights, steps = (changes.column(index).to_pylist() for index in range(_ADDED))
    return Parts(ops, weights, steps, rows)
