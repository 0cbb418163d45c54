"""The value as it is, for relations of one column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.core.options import Bag
from tidegate.core.quoting import literal
from tidegate.core.types import arrow_type
from tidegate.errors import make
from tidegate.formats.base import VALUE, Layout
from tidegate.formats.encoding import FAULT, ROW
from tidegate.formats.keys import TextKeys, texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT = f"CAST({VALUE} AS STRING)"


def refuse_others(layout: Layout, bag: Bag) -> None:
    """Only one column of text or bytes can be a value as it is."""
    types = [arrow_type(column.type) for column in layout.columns]
    if len(types) == 1 and (pa.types.is_string(types[0]) or pa.types.is_binary(types[0])):
        return
    found = ", ".join(f"{c.name} {c.type.upper()}" for c in layout.columns)
    message = f"format raw needs exactly one column, of type STRING or BINARY, but {layout.relation} has ({found})"
    raise make("INVALID_OPTION", message=message, hint="write format = 'json', or declare one column", span=bag.span)


@dataclass(frozen=True)
class RawReader:
    """Values that are a text or bytes."""

    layout: Layout
    record_key: TextKeys

    @property
    def raw(self) -> str:
        return f"make_valid_utf8({_TEXT})"

    def keys(self) -> dict[str, str]:
        return self.record_key.values()

    def rows(self, frame: DataFrame) -> DataFrame:
        column = self.layout.columns[0]
        is_text = pa.types.is_string(arrow_type(column.type))
        row = f"named_struct({literal(column.name)}, {_TEXT if is_text else VALUE})"
        invalid = f"IF(NOT is_valid_utf8({_TEXT}), {literal(f'{column.name}: not UTF-8 text')}, NULL)"
        return frame.selectExpr("*", f"{row} AS {ROW}", f"{invalid if is_text else 'CAST(NULL AS STRING)'} AS {FAULT}")


@dataclass(frozen=True)
class RawWriter:
    """The single column as text; NULL is an empty value, for no value would be a tombstone."""

    def rows(self, rows: pa.Table) -> list[bytes]:
        return [b"" if text is None else text for text in texts(rows.column(0))]
