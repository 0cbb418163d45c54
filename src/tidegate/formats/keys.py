"""Keys of records that are text: read by Spark SQL, written a column at a time."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.quoting import identifier
from tidegate.core.render import json_cells, json_objects
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_type
from tidegate.formats import fields
from tidegate.formats.contract import KEY, Layout
from tidegate.formats.fields import Times
from tidegate.formats.malformed import CORRUPT, Parser

_TEXT = f"CAST({KEY} AS STRING)"
_PARSER = Parser("from_json", {})


@dataclass(frozen=True)
class TextKeys:
    """Reads the key columns from a record's key. `json`: an object or, for a single column, a JSON value; `raw`: the
    text of a single column; None: whichever it looks like."""

    layout: Layout
    times: Times
    format: str | None = None

    @property
    def columns(self) -> Schema:
        return tuple(c for c in self.layout.columns if c.name in self.layout.key)

    def values(self) -> dict[str, str]:
        """Return an expression for each key column, NULL if the key does not contain it. The key is parsed only where
        the expression is evaluated: for tombstones, and for values without the key."""
        if len(self.columns) == 1:
            return {self.columns[0].name: self._single(self.columns[0])}
        return {c.name: self._member(c) for c in self.columns}

    def _object(self) -> str:
        return _PARSER.parse(_TEXT, fields.wire_fields(self.columns, self.times))

    def _member(self, column: Column) -> str:
        return fields.value(f"{self._object()}.{identifier(column.name)}", column, self.times)

    def _single(self, column: Column) -> str:
        if self.format == "raw":
            return self._bare(column)
        alone = self._json_value(column) if self.format == "json" else self._json_or_bare(column)
        is_object = f"startswith(ltrim({_TEXT}), '{{') AND {self._object()}.{CORRUPT} IS NULL"
        return f"CASE WHEN {is_object} THEN {self._member(column)} ELSE {alone} END"

    def _json_or_bare(self, column: Column) -> str:
        """Text that is not JSON is the value itself. For a string column only quoted text is JSON: 1.50 is kept."""
        either = f"coalesce({self._json_value(column)}, {self._bare(column)})"
        if not pa.types.is_string(arrow_type(column.type)):
            return either
        return f"""CASE WHEN {_TEXT} LIKE '"%"' THEN {either} ELSE {_TEXT} END"""

    def _json_value(self, column: Column) -> str:
        wrapped = f"""concat('{{"value":', {_TEXT}, '}}')"""
        parsed = _PARSER.parse(wrapped, f"value {fields.wire_type(column, self.times)}")
        return fields.value(f"{parsed}.value", column, self.times)

    def _bare(self, column: Column) -> str:
        if pa.types.is_binary(arrow_type(column.type)):
            return KEY
        return fields.bare(f"{_TEXT}", column, self.times)


@dataclass(frozen=True)
class NoKeys:
    """Records without a key."""

    def keys(self, rows: pa.Table) -> list[bytes | None]:
        return [None] * rows.num_rows


@dataclass(frozen=True)
class JsonKeys:
    """Writes the key columns as a JSON object."""

    indexes: tuple[int, ...]

    def keys(self, rows: pa.Table) -> list[bytes | None]:
        return [text.encode() for text in json_objects(rows.select(list(self.indexes)))]


@dataclass(frozen=True)
class RawKeys:
    """Writes one column as text; NULL is no key."""

    index: int

    def keys(self, rows: pa.Table) -> list[bytes | None]:
        return texts(rows.column(self.index))


def texts(column: pa.ChunkedArray) -> list[bytes | None]:
    """Render values as in JSON but without quotes; binary values are unchanged."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        bytes_of: list[bytes | None] = column.cast(pa.binary()).to_pylist()
        return bytes_of
    missing = pc.is_null(column).to_pylist()
    nested = pa.types.is_nested(column.type)
    cells = (cell if nested else cell.strip('"') for cell in json_cells(column))
    return [None if is_null else cell.encode() for is_null, cell in zip(missing, cells, strict=True)]
