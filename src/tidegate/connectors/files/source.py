"""`FROM FILES`: a folder that grows, read by Spark's own file stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from tidegate.connectors.contract import (
    FileStream,
    ParquetFiles,
    Position,
    SourceContext,
    SourceSpec,
    StreamSource,
    Unreadable,
)
from tidegate.connectors.files.csv_bytes import ENCODING, bytes_as_characters, decode_texts
from tidegate.connectors.files.options import ReadOptions, read_options
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Schema, names
from tidegate.errors import Error, make
from tidegate.formats.malformed import (
    CORRUPT,
    TEXTS,
    Diagnosis,
    Parser,
    Suspect,
    missing_text,
    row_of,
    text_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

_BATCH_FILE = re.compile(r"(\d+)(\.compact)?$")


def consumed(offset: str | None, log: Path, start: Position | None) -> Position:
    """Return the files of all batches up to the committed offset, and those read before this checkpoint."""
    files = set(start["files"]) if start else set()
    if offset is not None:
        last = _batch_of(offset)
        files |= {path_as_column(entry["path"]) for entry in _entries(log) if entry["batchId"] <= last}
    return {"files": sorted(files)}


def _batch_of(offset: str) -> int:
    return int(json.loads(offset)["logOffset"])


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    """Yield every file in Spark's log. The newest compact file repeats all before it; older ones may be deleted."""
    batches = {int(match[1]): path for path in log.iterdir() if (match := _BATCH_FILE.fullmatch(path.name))}
    for path in batches.values():
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"{path}: version {version} of Spark's file log is unknown")
        yield from (json.loads(line) for line in lines if line)


def _entries_of(log: Path, batch: int) -> list[dict[str, Any]]:
    """The files of one batch in Spark's log. A compact file has those of all batches, of which few are parsed."""
    for path in (log / str(batch), log / f"{batch}.compact"):
        if path.exists():
            end = f'"batchId":{batch}}}'
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith(end)]
    return [entry for entry in _entries(log) if entry["batchId"] == batch]


def plain_path(path: str) -> str:
    """Decode a path, so that all ways to write it are equal."""
    return unquote(re.sub(r"^file:/+", "/", path))


def path_as_column(path: str) -> str:
    """Convert a path of the log, `file:///a/b`, to one of the column `_metadata.file_path`, `file:/a/b`."""
    return re.sub(r"^file:/+", "file:/", path)


_FOREVER = "36500d"
_2020 = 1_577_836_800_000
_ALLOW_ROW_NUMBERS = ("spark.sql.streaming.unsupportedOperationCheck", "false")
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_SPARKS_LISTING_TASKS = "10000"
_BINARY = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_UNREADABLE = re.compile(r"Encountered error while reading file ([^\s{]\S*?)\.\s+(.*?)\s*SQLSTATE", re.DOTALL)
_REASONS = (
    (
        r"Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\.",
        r"column \1 is \3, expected \2",
    ),
    (r"CSV header does not conform .*\n Header: (.*)\n Schema: (.*)", r"its header is \1, expected \2"),
    (r"(is not a Parquet file.*)", r"it \1"),
)


@dataclass(frozen=True)
class FilesSource(StreamSource, FileStream, ParquetFiles):
    """Every file of a folder is read once; a step reads the files that are new, oldest first.

    Malformed rows of CSV and JSON come out as errors. A file that cannot be read at all (a broken parquet file, a
    column of another type, a CSV header with other names) fails the step, which then runs again without it.
    """

    options: ReadOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> FilesSource:
        return cls(spec, read_options(spec, bag))

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        self._prepare(spark)
        frame = _left(self._reader(spark).load(self.options.folder), context)
        if self._reads_bytes:
            frame = decode_texts(frame, self.spec.columns)
        columns = [frame[identifier(name)] for name in names(self.spec.columns)]
        error, raw = self._error_columns()
        return frame.select(*columns, F.lit(1).cast("bigint").alias(WEIGHT), self._sequence().alias(SEQ), error, raw)

    def new_files(self, spark: SparkSession, context: SourceContext) -> DataFrame | None:
        """Spark's own file stream, so that files are listed, recorded and limited in the same way, but of names only:
        as binary files whose content is not read."""
        if self.options.format != "parquet" or "://" in self.options.folder.removeprefix("file://"):
            return None
        self._prepare(spark)
        reader = spark.readStream.format("binaryFile").schema(_BINARY).options(**self._listing())
        frame = _left(reader.load(self.options.folder), context)
        written = F.unix_millis("_metadata.file_modification_time") - F.lit(_2020)
        return frame.select(F.col("_metadata.file_path").alias("path"), (written * F.lit(1 << 22)).alias("written"))

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return consumed(offset, log, start)

    def failure(self, text: str) -> Error | None:
        found = self.unreadable(text)
        if found is None:
            return None
        return make(
            "UNREADABLE_FILE", relation=self.spec.relation, path=plain_path(found.path), detail=found.reason or None
        )

    def unreadable(self, text: str) -> Unreadable | None:
        match = _UNREADABLE.search(text)
        if match is None:
            return None
        reasons = [m.expand(template) for pattern, template in _REASONS if (m := re.search(pattern, text))]
        return Unreadable(match[1], reasons[0] if reasons else match[2])

    def listed(
        self, log: Path, after: str | None, until: str | None, start: Position | None
    ) -> Sequence[tuple[str, int]]:
        first = 0 if after is None else _batch_of(after) + 1
        last = -1 if until is None else _batch_of(until)
        read = set(start["files"]) if start else set()
        new = [entry for batch in range(first, last + 1) for entry in _entries_of(log, batch)]
        times = {path_as_column(each["path"]): int(each["timestamp"]) for each in new}
        return [(path, time) for path, time in times.items() if path not in read]

    def logged_path(self, log: Path, path: str) -> str | None:
        wanted = plain_path(path)
        found = (path_as_column(each["path"]) for each in _entries(log) if plain_path(each["path"]) == wanted)
        return next(found, None)

    def forgetting(self, position: Position, paths: Sequence[str]) -> Position:
        return {"files": [path for path in position["files"] if path not in paths]}

    @property
    def _reads_bytes(self) -> bool:
        """True if texts are decoded after reading. Quotes are a single character for Spark, so they must be ASCII."""
        csv = self.options.csv
        return self.options.format == "csv" and f"{csv.quote}{csv.escape}".isascii()

    def _prepare(self, spark: SparkSession) -> None:
        """Set options of the session. By default Spark lists with a task per file, which takes minutes for some
        thousand files; a few tasks per core take seconds."""
        if self.options.format != "parquet":
            spark.conf.set(*_ALLOW_ROW_NUMBERS)
        if spark.conf.get(_LISTING_TASKS, _SPARKS_LISTING_TASKS) == _SPARKS_LISTING_TASKS:
            spark.conf.set(_LISTING_TASKS, str(4 * spark.sparkContext.defaultParallelism))

    def _reader(self, spark: SparkSession) -> DataStreamReader:
        reader = spark.readStream.format(self.options.format).schema(self._schema()).options(**self._listing())
        if self.options.format == "parquet":
            return reader
        settings = self._text_settings()
        return reader.options(**{key: value for key, value in settings.items() if value is not None})

    def _listing(self) -> dict[str, str]:
        """Return the options of which files are read, and how many in a step."""
        options = self.options.files
        age = options.max_file_age
        settings: dict[str, str | None] = {
            "maxFileAge": f"{int(age.total_seconds())}s" if age else _FOREVER,
            "maxFilesPerTrigger": str(options.max_files_per_step) if options.max_files_per_step else None,
            "pathGlobFilter": self.options.pattern,
            "recursiveFileLookup": "true" if options.recursive else None,
        }
        return {key: value for key, value in settings.items() if value is not None}

    def _text_settings(self) -> dict[str, str | None]:
        options = self.options
        settings = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": CORRUPT,
            "timestampFormat": options.text.timestamp_format,
            "dateFormat": options.text.date_format,
        }
        if options.format == "csv":
            settings |= {
                "header": str(options.csv.header).lower(),
                "enforceSchema": str(not options.csv.header).lower(),
                "sep": options.csv.delimiter,
                "quote": options.csv.quote,
                "escape": options.csv.escape,
                "nullValue": options.csv.null_value,
            }
        if self._reads_bytes:
            settings |= {key: bytes_as_characters(settings[key] or "") for key in ("sep", "nullValue")}
            settings["encoding"] = ENCODING
        return settings

    def _schema(self) -> StructType:
        in_file = bytes_as_characters if self._reads_bytes else str
        fields = [StructField(in_file(c.name), DataType.fromDDL(c.type), True) for c in self.spec.columns]
        if self.options.format != "parquet":
            fields.append(StructField(CORRUPT, StringType(), True))
        return StructType(fields)

    def _error_columns(self) -> tuple[Column, Column]:
        columns = self.spec.columns
        missing = missing_text(columns)
        if self.options.format == "parquet":
            error, raw = missing or "CAST(NULL AS STRING)", f"IF({missing} IS NULL, NULL, {_row_text(columns)})"
            return F.expr(error).alias(ERROR), F.expr(raw if missing else error).alias(RAW)
        error = _error_text(columns, self.options)
        if missing is None:
            return F.expr(error).alias(ERROR), F.col(CORRUPT).alias(RAW)
        raw = f"coalesce({CORRUPT}, IF({missing} IS NULL, NULL, {_row_text(columns)}))"
        return F.expr(f"coalesce({error}, {missing})").alias(ERROR), F.expr(raw).alias(RAW)

    def _sequence(self) -> Column:
        """Files by the time they were last written, then rows in their order in the file.

        Spark does not read the files of a step in order, so the order is in the number itself: 2^22 for a millisecond,
        plus the row's number in its file. Where Spark does not know that number, the offset of its split in the file
        plus its number in the task is as good: a task has one full split, or ends of several files. A file of more
        than four million rows overlaps with files written within the next milliseconds, which no writer does.

        Spark rejects numbering the rows of a stream, because the numbers begin again with every step. That is intended
        here, so its check is switched off in the session that runs the stream.
        """
        written = F.unix_millis("_metadata.file_modification_time") - F.lit(_2020)
        if self.options.format == "parquet":
            row = F.col("_metadata.row_index")
        else:
            row_of_task = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
            row = F.col("_metadata.file_block_start") + row_of_task
        return written * F.lit(1 << 22) + row


def _left(frame: DataFrame, context: SourceContext) -> DataFrame:
    """The files that were not read before and are not left out. Spark does not open the others."""
    out = [*(context.start["files"] if context.start is not None else ()), *context.without]
    return frame.where(f"_metadata.file_path NOT IN ({', '.join(map(literal, out))})") if out else frame


def _error_text(columns: Schema, options: ReadOptions) -> str:
    """Expression: why a row is malformed, else NULL.

    It mentions every column, so that every column is always read: whether a row is malformed must not depend on which
    columns a query happens to use.
    """
    is_csv = options.format == "csv"
    settings = {"sep": options.csv.delimiter, "quote": options.csv.quote, "escape": options.csv.escape}
    parser = Parser("from_csv", settings) if is_csv else Parser("from_json", {})
    suspects = [Suspect(c.name, c, identifier(c.name), f"{TEXTS}.{identifier(c.name)}") for c in columns]
    return Diagnosis(
        bad=f"{CORRUPT} IS NOT NULL",
        texts=parser.parse(CORRUPT, text_fields(columns)),
        shapes=[
            (f"{TEXTS}.{CORRUPT} IS NOT NULL", f"expected {len(columns)} fields" if is_csv else "not a JSON object")
        ],
        suspects=suspects,
        whole=row_of(columns),
    ).fault


def _row_text(columns: Schema) -> str:
    """Expression: the row as JSON."""
    return f"to_json(struct({', '.join(identifier(c.name) for c in columns)}))"
