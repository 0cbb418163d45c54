"""`INTO FILES`: one file per step that changed something, in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from tidegate.connectors.contract import Sink, SinkAbilities, SinkContext, SinkSpec
from tidegate.connectors.files.options import WriteOptions, write_options
from tidegate.connectors.rows import appended, reject_clash
from tidegate.core.durable import read_record, write_atomically, write_record
from tidegate.core.options import Bag
from tidegate.core.render import csv_column, json_objects
from tidegate.errors import make


def write_rows(table: pa.Table, file: BinaryIO, options: WriteOptions) -> None:
    """Write a table in the format of the options."""
    match options.format:
        case "parquet":
            pq.write_table(table, file)
        case "csv":
            settings = csv.WriteOptions(include_header=options.csv.header, delimiter=options.csv.delimiter)
            csv.write_csv(_as_text(table), file, settings)
        case "json":
            file.writelines(line.encode() + b"\n" for line in json_objects(table))


def _as_text(table: pa.Table) -> pa.Table:
    """Render every value as text, since CSV has no types; NULL is an empty field."""
    return pa.Table.from_arrays([csv_column(column) for column in table.columns], names=table.column_names)


@dataclass(frozen=True)
class Owner:
    """The marker of a folder: the sink that writes to it."""

    owner: str


@dataclass
class FilesSink(Sink):
    """Writes a file per step, named by the step, so a repeated step replaces its own file. The names of files are the
    record of what was written; a marker in the folder names the owner."""

    options: WriteOptions
    prefix: str = ""

    @classmethod
    def build(cls, spec: SinkSpec, bag: Bag) -> FilesSink:
        at = bag.span_of("mode")
        options = write_options(spec, bag)
        if options.mode == "changelog":
            reject_clash(spec.columns, at)
        return cls(spec, options)

    @property
    def abilities(self) -> SinkAbilities:
        return SinkAbilities(self.options.mode)

    def open(self, context: SinkContext) -> None:
        self.prefix = quote(context.name, safe="") + "-"
        self.options.path.mkdir(parents=True, exist_ok=True)
        marker = self.options.path / f"_{self.prefix}owner.json"
        record = read_record(marker, Owner)
        if record is None:
            self._reject_leftovers(context)
            write_record(marker, Owner(context.owner))
        elif record.owner != context.owner:
            raise self._not_ours(context)

    def write(self, step: int, changes: pa.Table) -> None:
        path = self.options.path / f"{self.prefix}{step:012d}.{self.options.format}"
        rows = changes if self.options.mode == "changelog" else appended(changes, self.spec)
        if rows.num_rows:
            write_atomically(path, lambda file: write_rows(rows, file, self.options))
        else:
            path.unlink(missing_ok=True)

    def last_step(self) -> int | None:
        steps = [self._step_of(path) for path in self.options.path.iterdir()]
        return max((step for step in steps if step is not None), default=None)

    def close(self) -> None:
        pass

    def _step_of(self, path: Path) -> int | None:
        match = re.fullmatch(rf"{re.escape(self.prefix)}(\d+)\.{self.options.format}", path.name)
        return int(match[1]) if match else None

    def _reject_leftovers(self, context: SinkContext) -> None:
        if self.last_step() is not None:
            raise self._not_ours(context)

    def _not_ours(self, context: SinkContext) -> Exception:
        return make(
            "INVALID_OPTION",
            message=f"folder {self.options.path} holds files of another sink named {context.name}",
            hint="choose another path, or empty the folder",
        )
