"""What a format is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from tidegate.core.schema import Schema
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
