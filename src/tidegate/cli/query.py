"""`tidegate query`: an ad-hoc SELECT over a folder, in four formats."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.cli.opening import open_database
from tidegate.core.render import json_objects, text_cells
from tidegate.core.tables import text_table

if TYPE_CHECKING:
    from tidegate import Result


def query_folder(folder: Path, sql: str, as_of: int | None, format: str) -> None:
    """Print the rows of a query."""
    if format == "arrow" and sys.stdout.isatty():
        from tidegate.errors import OptionError

        raise OptionError("INVALID_OPTION", "Arrow is binary: not for a terminal", hint="add `> rows.arrow`")
    with open_database(folder, read_only=True, spark=False) as db:
        WRITERS[format](db.query(sql, as_of=as_of))


def write_table(result: Result) -> None:
    """Write aligned columns and a row count."""
    print(text_table(result.arrow()))


def write_csv(result: Result) -> None:
    """Write a header and comma-separated values; NULL is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(zip(*map(_csv_cells, result.arrow().columns), strict=True))


def _csv_cells(column: pa.ChunkedArray[Any]) -> list[str]:
    return ["" if null else cell for cell, null in zip(text_cells(column), column.is_null().to_pylist(), strict=True)]


def write_json(result: Result) -> None:
    """Write one array of objects, one object per line."""
    print("[" + ",\n ".join(json_objects(result.arrow())) + "]")


def write_arrow(result: Result) -> None:
    """Write an Arrow IPC stream."""
    table = result.arrow()
    with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
        stream.write_table(table)
    sys.stdout.buffer.flush()


WRITERS: dict[str, Callable[[Result], None]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "arrow": write_arrow,
}
