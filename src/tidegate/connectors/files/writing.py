"""One step's rows as the bytes of a parquet, CSV or JSON file."""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from tidegate.connectors.files.options import WriteOptions
from tidegate.connectors.lines import json_cells, json_objects, shown_cells


def write_rows(table: pa.Table, file: BinaryIO, options: WriteOptions) -> None:
    """Writes a table in the chosen format."""
    match options.format:
        case "parquet":
            pq.write_table(table, file)
        case "csv":
            settings = csv.WriteOptions(include_header=options.header, delimiter=options.delimiter)
            csv.write_csv(_as_text(table), file, settings)
        case "json":
            for line in json_objects(table):
                file.write(line.encode() + b"\n")


def _as_text(table: pa.Table) -> pa.Table:
    """CSV has no types: times and booleans as people write them, nested values as JSON; NULL stays an empty field."""
    columns = [_text_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _text_column(column: pa.ChunkedArray[Any]) -> Any:
    types = pa.types
    if types.is_integer(column.type) or types.is_string(column.type) or types.is_decimal(column.type):
        return column
    cells = json_cells(column) if types.is_nested(column.type) else shown_cells(column)
    missing = column.is_null().to_pylist()
    return pa.array([None if null else cell for cell, null in zip(cells, missing, strict=True)], pa.string())
