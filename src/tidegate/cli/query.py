"""`tidegate query`: an ad-hoc SELECT over a folder, in four formats."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.opening import opened
from tidegate.cli.tables import text_table
from tidegate.cli.values import compact, shown

if TYPE_CHECKING:
    from tidegate import Result


def query_folder(folder: Path, sql: str, as_of: int | None, format: str) -> None:
    """Prints the rows of a query."""
    if format == "arrow" and sys.stdout.isatty():
        from tidegate.errors import OptionError

        raise OptionError("INVALID_OPTION", "Arrow is binary: not for a terminal", hint="add `> rows.arrow`")
    with opened(folder, read_only=True) as db:
        WRITERS[format](db.query(sql, as_of=as_of))


def write_table(result: Result) -> None:
    """Aligned columns and a row count."""
    print(text_table(result.columns, result.rows()))


def write_csv(result: Result) -> None:
    """A header and comma-separated values; NULL is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(["" if value is None else shown(value) for value in row] for row in result.rows())


def write_json(result: Result) -> None:
    """One array of objects, one object per line."""
    lines = [compact(dict(zip(result.columns, row, strict=True))) for row in result.rows()]
    print("[" + ",\n ".join(lines) + "]")


def write_arrow(result: Result) -> None:
    """An Arrow IPC stream."""
    import pyarrow as pa

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
