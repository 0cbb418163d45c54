"""CSV and raw text: one record is one line without a header, or the value as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
from pydantic import Field

from tidegate.core.option_models import ANY_TEXT, OptionModel
from tidegate.core.options import Bag
from tidegate.core.quoting import literal
from tidegate.core.render import csv_column, text_cells
from tidegate.core.types import arrow_type
from tidegate.errors import make
from tidegate.formats import fields
from tidegate.formats.contract import FAULT, ROW, VALUE, Layout
from tidegate.formats.fields import Times
from tidegate.formats.keys import TextKeys, texts
from tidegate.formats.malformed import (
    CORRUPT,
    TEXTS,
    UNREADABLE,
    Diagnosis,
    Parser,
    faults_of,
    row_of,
    suspects_of,
    text_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT = f"CAST({VALUE} AS STRING)"
_PARSED = "__parsed"


class CsvOptions(OptionModel):
    """How the fields of a line are separated."""

    delimiter: str = Field(",", description="Character between fields.")
    quote: Annotated[str, ANY_TEXT] = Field('"', description="Character around fields that contain the delimiter.")
    escape: Annotated[str, ANY_TEXT] = Field('"', description="Character before a quote inside of a quoted field.")
    null_value: Annotated[str, ANY_TEXT] = Field("", description="Text of NULL.")


def reject_nested(layout: Layout, bag: Bag) -> None:
    """Reject arrays, maps and structs, which CSV cannot represent."""
    for column in layout.columns:
        if pa.types.is_nested(arrow_type(column.type)):
            message = f"format csv cannot hold column {column.name}, which is {column.type.upper()}"
            raise make("INVALID_OPTION", message=message, hint="write format = 'json'", span=bag.span)


@dataclass(frozen=True)
class CsvReader:
    """Reads lines with Spark's `from_csv`."""

    layout: Layout
    dialect: CsvOptions
    times: Times
    record_key: TextKeys

    @property
    def raw(self) -> str:
        return f"make_valid_utf8({_TEXT})"

    def keys(self) -> dict[str, str]:
        return self.record_key.values()

    def rows(self, frame: DataFrame) -> DataFrame:
        columns, times = self.layout.columns, self.times
        parsed = self._parser().parse(_TEXT, fields.wire_fields(columns, times))
        texts = self._parser().parse(_TEXT, text_fields(columns))
        frame = frame.selectExpr("*", f"{parsed} AS {_PARSED}")
        frame = frame.selectExpr("*", f"{fields.struct(_PARSED, columns, times)} AS {ROW}")
        blank = f"({_TEXT} = '' AND {len(columns)} > 1)"
        unread = [
            f"{_PARSED} IS NULL",
            f"{_PARSED}.{CORRUPT} IS NOT NULL",
            blank,
            *faults_of(_PARSED, ROW, columns, times),
        ]
        diagnosis = Diagnosis(
            bad=f"{VALUE} IS NOT NULL AND ({' OR '.join(unread)})",
            texts=texts,
            shapes=[(f"{UNREADABLE} OR {blank}", f"expected {len(columns)} field{'s' if len(columns) > 1 else ''}")],
            suspects=suspects_of(_PARSED, ROW, TEXTS, columns, times),
            whole=row_of(columns),
        )
        return diagnosis.add(frame, FAULT)

    def _parser(self) -> Parser:
        chosen = self.dialect
        settings = {
            "sep": chosen.delimiter,
            "quote": chosen.quote,
            "escape": chosen.escape,
            "nullValue": chosen.null_value,
        }
        if self.times.date_format is not None:
            settings["dateFormat"] = self.times.date_format
        return Parser("from_csv", settings)


@dataclass(frozen=True)
class CsvWriter:
    """Writes rows as lines without line ends; text is quoted where it would be ambiguous."""

    dialect: CsvOptions

    def rows(self, rows: pa.Table) -> list[bytes]:
        cells = [self._cells(column) for column in rows.columns]
        return [self.dialect.delimiter.join(line).encode() for line in zip(*cells, strict=True)]

    def _cells(self, column: pa.ChunkedArray) -> list[str]:
        texts = csv_column(column)
        texts = texts if isinstance(column, pa.ChunkedArray) else pa.chunked_array([texts])
        missing = texts.is_null().to_pylist()
        return [
            self.dialect.null_value if is_null else self._quoted(cell)
            for is_null, cell in zip(missing, text_cells(texts), strict=True)
        ]

    def _quoted(self, cell: str) -> str:
        quote, escape = self.dialect.quote, self.dialect.escape
        signs = (self.dialect.delimiter, "\n", "\r", quote) if quote else ()
        if cell and cell == cell.strip() and cell != self.dialect.null_value and not any(s in cell for s in signs):
            return cell
        if escape and escape != quote:
            cell = cell.replace(escape, escape * 2)
        return f"{quote}{cell.replace(quote, escape + quote) if quote else cell}{quote}"


_RAW_TEXT = f"CAST({VALUE} AS STRING)"


def reject_others(layout: Layout, bag: Bag) -> None:
    """Require exactly one column, of text or bytes."""
    types = [arrow_type(column.type) for column in layout.columns]
    if len(types) == 1 and (pa.types.is_string(types[0]) or pa.types.is_binary(types[0])):
        return
    columns = ", ".join(f"{c.name} {c.type.upper()}" for c in layout.columns)
    message = f"format raw needs exactly one column, of type STRING or BINARY, but {layout.relation} has ({columns})"
    raise make("INVALID_OPTION", message=message, hint="write format = 'json', or declare one column", span=bag.span)


@dataclass(frozen=True)
class RawReader:
    """Reads values as text or bytes."""

    layout: Layout
    record_key: TextKeys

    @property
    def raw(self) -> str:
        return f"make_valid_utf8({_RAW_TEXT})"

    def keys(self) -> dict[str, str]:
        return self.record_key.values()

    def rows(self, frame: DataFrame) -> DataFrame:
        column = self.layout.columns[0]
        is_text = pa.types.is_string(arrow_type(column.type))
        row = f"named_struct({literal(column.name)}, {_RAW_TEXT if is_text else VALUE})"
        invalid = f"IF(NOT is_valid_utf8({_RAW_TEXT}), {literal(f'{column.name}: not UTF-8 text')}, NULL)"
        return frame.selectExpr("*", f"{row} AS {ROW}", f"{invalid if is_text else 'CAST(NULL AS STRING)'} AS {FAULT}")


@dataclass(frozen=True)
class RawWriter:
    """The single column as text; NULL is an empty value, for no value would be a tombstone."""

    def rows(self, rows: pa.Table) -> list[bytes]:
        return [b"" if text is None else text for text in texts(rows.column(0))]
