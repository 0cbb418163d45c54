"""What `FROM FILES (...)` and `INTO FILES (...)` can be told."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from tidegate.connectors.contract import SinkSpec, SourceSpec
from tidegate.core.options import Bag, checked_format
from tidegate.errors import Span, make

FORMATS = ("parquet", "csv", "json")
MODES = ("append", "changelog")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


@dataclass(frozen=True)
class ReadOptions:
    """How files are found and read. `folder` may be a glob."""

    folder: str
    format: str
    pattern: str | None
    recursive: bool
    max_files_per_step: int | None
    max_file_age: timedelta | None
    header: bool
    delimiter: str
    quote: str
    escape: str
    null_value: str
    timestamp_format: str | None
    date_format: str | None


@dataclass(frozen=True)
class WriteOptions:
    """Where and how a view's changes are written."""

    path: Path
    format: str
    mode: Literal["append", "changelog"]
    header: bool
    delimiter: str


def read_options(spec: SourceSpec, bag: Bag) -> ReadOptions:
    """Take a source's options out of the bag."""
    at = bag.span_of("path")
    path = bag.required("path", "some/folder")
    folder, name = _folder_and_name(path)
    chosen = checked_format(bag, spec.format, FORMATS, _format_by_suffix(path))
    is_csv, is_text = chosen == "csv", chosen != "parquet"
    options = ReadOptions(
        folder=folder,
        format=chosen,
        pattern=bag.text("pattern", name),
        recursive=bag.boolean("recursive"),
        max_files_per_step=bag.integer("max_files_per_step", minimum=1),
        max_file_age=bag.duration("max_file_age"),
        header=is_csv and bag.boolean("header"),
        delimiter=(bag.text("delimiter", ",") or ",") if is_csv else ",",
        quote=(bag.text("quote", '"') or "") if is_csv else '"',
        escape=(bag.text("escape", '"') or "") if is_csv else '"',
        null_value=(bag.text("null_value", "") or "") if is_csv else "",
        timestamp_format=bag.text("timestamp_format") if is_text else None,
        date_format=bag.text("date_format") if is_text else None,
    )
    bag.finish()
    _require_place(path, at)
    return options


def write_options(spec: SinkSpec, bag: Bag) -> WriteOptions:
    """Take a sink's options out of the bag."""
    path = bag.required("path", "some/folder")
    chosen = checked_format(bag, spec.format, FORMATS, "parquet")
    mode = bag.choice("mode", MODES, "append")
    is_csv = chosen == "csv"
    return WriteOptions(
        path=Path(path),
        format=chosen,
        mode="changelog" if mode == "changelog" else "append",
        header=is_csv and bag.boolean("header", True),
        delimiter=(bag.text("delimiter", ",") or ",") if is_csv else ",",
    )


def _require_place(path: str, at: Span | None) -> None:
    """A folder that is not there is more likely misspelt than awaited. Other file systems are asked at the start."""
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
    """Spark streams folders only: a single file is a folder in which only that file counts."""
    local = path.removeprefix("file://")
    if not os.path.isfile(local):
        return path, None
    return os.path.dirname(os.path.abspath(local)), re.sub(r"([][*?{}\\])", r"\\\1", os.path.basename(local))


def _format_by_suffix(path: str) -> str | None:
    return _SUFFIXES.get(os.path.splitext(path)[1].casefold())
