"""One step's rows as the bytes of a parquet, CSV or JSON file."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from tidegate.connectors.files.options import WriteOptions
from tidegate.core.render import csv_column, json_objects


def write_rows(table: pa.Table, file: BinaryIO, options: WriteOptions) -> None:
    """Writes a table in the chosen format."""
    match options.format:
        case "parquet":
            pq.write_table(table, file)
        case "csv":
            settings = csv.WriteOptions(include_header=options.header, delimiter=options.delimiter)
            csv.write_csv(_as_text(table), file, settings)
        case "json":
            file.writelines(line.encode() + b"\n" for line in json_objects(table))


def _as_text(table: pa.Table) -> pa.Table:
    """CSV has no types: every value as people write it; NULL stays an empty field."""
    return pa.Table.from_arrays([csv_column(column) for column in table.columns], names=table.column_names)
