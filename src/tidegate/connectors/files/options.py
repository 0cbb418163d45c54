"""Options of `FROM FILES (...)` and `INTO FILES (...)`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tidegate.connectors.contract import SinkSpec, SourceSpec
from tidegate.core.option_models import DURATION, OptionModel, Spans, choice, whole_number
from tidegate.core.options import Bag, checked_format
from tidegate.errors import Span, make
from tidegate.formats.text import CsvOptions

FORMATS = ("parquet", "csv", "json")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class FolderOptions(OptionModel):
    """Which files are read, whatever their format."""

    path: str = Field(description="A folder, a file or a glob.", examples=["some/folder"])
    pattern: str | None = Field(None, description="Glob that the names of files must match.")
    recursive: bool = Field(False, description="Read files in subfolders too.")
    max_files_per_step: Annotated[int | None, whole_number(1)] = Field(
        None, description="Largest number of files in a step."
    )
    max_file_age: Annotated[timedelta | None, DURATION] = Field(None, description="Largest age of a file.")


class TableFolderOptions(FolderOptions):
    """Which files make up a table with a key."""

    def check(self, spans: Spans) -> None:
        if self.max_files_per_step is not None:
            message = "a table is ready when all its files are read, which takes one step"
            hint = "leave out max_files_per_step"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["max_files_per_step"])


class CsvFileOptions(CsvOptions):
    """How CSV files are read."""

    header: bool = Field(False, description="The first line of a file has the names of columns.")


class TextFileOptions(OptionModel):
    """How times in CSV and JSON files are read."""

    timestamp_format: str | None = Field(None, description="Spark's pattern of timestamps; ISO 8601 by default.")
    date_format: str | None = Field(None, description="Spark's pattern of dates; ISO 8601 by default.")


@dataclass(frozen=True)
class ReadOptions:
    """How files are found and read. `folder` may be a glob."""

    folder: str
    format: str
    pattern: str | None
    files: FolderOptions
    csv: CsvFileOptions
    text: TextFileOptions


def read_options(spec: SourceSpec, bag: Bag) -> ReadOptions:
    """Take a source's options out of the bag."""
    at = bag.span_of("path")
    files = TableFolderOptions.take(bag) if spec.key else FolderOptions.take(bag)
    folder, name = _folder_and_name(files.path)
    format = checked_format(bag, spec.format, FORMATS, _format_by_suffix(files.path))
    csv = CsvFileOptions.take(bag) if format == "csv" else CsvFileOptions.model_validate({})
    text = TextFileOptions.take(bag) if format != "parquet" else TextFileOptions.model_validate({})
    bag.finish()
    _require_path(files.path, at)
    return ReadOptions(folder, format, name if files.pattern is None else files.pattern, files, csv, text)


class SinkOptions(OptionModel):
    """Where a sink writes, whatever the format."""

    path: Path = Field(description="A folder; it is created if it does not exist.", examples=["some/folder"])
    mode: Annotated[Literal["append", "changelog"], choice("append", "changelog")] = Field(
        "append", description="Rows, or changes with the columns op, weight and step."
    )


class CsvSinkOptions(OptionModel):
    """How CSV files are written."""

    header: bool = Field(True, description="Begin a file with the names of columns.")
    delimiter: str = Field(",", description="Character between fields.")


@dataclass(frozen=True)
class WriteOptions:
    """Where and how a view's changes are written."""

    path: Path
    format: str
    mode: Literal["append", "changelog"]
    csv: CsvSinkOptions


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    options = SinkOptions.take(bag)
    format = checked_format(bag, spec.format, FORMATS, "parquet")
    csv = CsvSinkOptions.take(bag) if format == "csv" else CsvSinkOptions.model_validate({})
    return WriteOptions(options.path, format, options.mode, csv)


def _require_path(path: str, at: Span | None) -> None:
    """Reject a path that does not exist: it is probably misspelt. Other file systems are checked at the start."""
    local = path.removeprefix("file://")
    if "://" in local or any(sign in local for sign in "*?[{") or os.path.exists(local):
        return
    raise make(
        "INVALID_OPTION",
        message=f"there is no folder or file {path}",
        detail=f"looked for {os.path.abspath(local)}",
        hint="create the folder first; files may come later",
        span=at,
    )


def _folder_and_name(path: str) -> tuple[str, str | None]:
    """Spark streams folders only: a single file is read as its folder, with a pattern for its name."""
    local = path.removeprefix("file://")
    if not os.path.isfile(local):
        return path, None
    return os.path.dirname(os.path.abspath(local)), re.sub(r"([][*?{}\\])", r"\\\1", os.path.basename(local))


def _format_by_suffix(path: str) -> str | None:
    return _SUFFIXES.get(os.path.splitext(path)[1].casefold())
