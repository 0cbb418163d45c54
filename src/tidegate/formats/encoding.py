"""What an encoding is, and the columns that it leaves for envelopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from tidegate.core.columns import ERROR, RAW, WEIGHT
from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema, names
from tidegate.formats.base import KEY, PART, VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
