"""`FROM FILES`: a folder that grows, read by Spark's own file stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from tidegate.connectors.contract import ParquetFiles, Position, SourceContext, SourceSpec, StreamSource
from tidegate.connectors.files.malformed import CORRUPT, error_text, row_text
from tidegate.connectors.files.options import ReadOptions, read_options
from tidegate.core.columns import ERROR, RAW, SEQ, WEIGHT
from tidegate.core.options import Bag
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import names
from tidegate.errors import Error, make
from tidegate.formats.malformed import missing_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

_BATCH_FILE = re.compile(r"(\d+)(\.compact)?$")


def consumed(offset: str | None, log: Path, start: Position | None) -> Position:
    """The files of all batches up to the committed offset, and those that had been read before this checkpoint."""
    files = set(start["files"]) if start else set()
    if offset is not None:
        upto = int(json.loads(offset)["logOffset"])
        files |= {path_as_column(entry["path"]) for entry in _entries(log) if entry["batchId"] <= upto}
    return {"files": sorted(files)}


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    """Every file that Spark's log names. The newest compact file repeats all before it; older ones may be gone."""
    batches = {int(found[1]): path for path in log.iterdir() if (found := _BATCH_FILE.fullmatch(path.name))}
    for path in batches.values():
        version, *lines = path.read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise ValueError(f"{path}: version {version} of Spark's file log is unknown")
        yield from (json.loads(line) for line in lines if line)


def path_as_column(path: str) -> str:
    """The log writes `file:///a/b`, the column `_metadata.file_path` says `file:/a/b`."""
    return re.sub(r"^file:/+", "file:/", path)


_FOREVER = "36500d"
_2020 = 1_577_836_800_000
_ALLOW_ROW_NUMBERS = ("spark.sql.streaming.unsupportedOperationCheck", "false")
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_SPARKS_LISTING_TASKS = "10000"
_BINARY = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
_UNREADABLE = re.compile(r"Encountered error while reading file (\S+?)\.\s+(.*?)\s*SQLSTATE")
_REASONS = (
    (
        r"Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\.",
        r"column \1 is \3, expected \2",
    ),
    (r"CSV header does not conform .*\n Header: (.*)\n Schema: (.*)", r"its header is \1, expected \2"),
    (r"(is not a Parquet file.*)", r"it \1"),
)


@dataclass(frozen=True)
class FilesSource(StreamSource, ParquetFiles):
    """Every file of a folder is read once; a step reads the files that are new, oldest first.

    Malformed rows of CSV and JSON come out as errors. A file that cannot be read at all (a broken parquet file, a
    column of another type, a CSV header with other names) fails the step rather than being skipped, until it is
    replaced.
    """

    options: ReadOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> FilesSource:
        return cls(spec, read_options(spec, bag))

    def stream(self, spark: SparkSession, context: SourceContext) -> DataFrame:
        self._prepare(spark)
        frame = self._reader(spark).load(self.options.folder)
        if context.start is not None and context.start["files"]:
            read = ", ".join(literal(path) for path in context.start["files"])
            frame = frame.where(f"_metadata.file_path NOT IN ({read})")
        columns = [frame[identifier(name)] for name in names(self.spec.columns)]
        error, raw = self._error_columns()
        return frame.select(*columns, F.lit(1).cast("bigint").alias(WEIGHT), self._sequence().alias(SEQ), error, raw)

    def new_files(self, spark: SparkSession, context: SourceContext) -> DataFrame | None:
        """Spark's own file stream again, so that files are found, remembered and counted the same way, but of names
        only: as binary files whose content nobody asks for."""
        if self.options.format != "parquet" or "://" in self.options.folder.removeprefix("file://"):
            return None
        self._prepare(spark)
        reader = spark.readStream.format("binaryFile").schema(_BINARY).options(**self._listing())
        frame = reader.load(self.options.folder)
        if context.start is not None and context.start["files"]:
            read = ", ".join(literal(path) for path in context.start["files"])
            frame = frame.where(f"_metadata.file_path NOT IN ({read})")
        written = F.unix_millis("_metadata.file_modification_time") - F.lit(_2020)
        return frame.select(F.col("_metadata.file_path").alias("path"), (written * F.lit(1 << 22)).alias("written"))

    def position(self, offset: str | None, log: Path, start: Position | None = None) -> Position:
        return consumed(offset, log, start)

    def failure(self, text: str) -> Error | None:
        found = _UNREADABLE.search(text)
        if found is None:
            return None
        reasons = [m.expand(said) for pattern, said in _REASONS if (m := re.search(pattern, text))]
        return make(
            "MALFORMED_ROW",
            message=f"a file of {self.spec.relation} cannot be read: {unquote(found[1].removeprefix('file://'))}",
            detail=reasons[0] if reasons else found[2] or None,
            hint="replace the file by a readable one of the same name, then start again",
        )

    def _prepare(self, spark: SparkSession) -> None:
        """Settings of the session. By default Spark has a task for every file to look up, which takes minutes for some
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
        """Which files are read, and how many in a step."""
        chosen = self.options
        age = chosen.max_file_age
        settings: dict[str, str | None] = {
            "maxFileAge": f"{int(age.total_seconds())}s" if age else _FOREVER,
            "maxFilesPerTrigger": str(chosen.max_files_per_step) if chosen.max_files_per_step else None,
            "pathGlobFilter": chosen.pattern,
            "recursiveFileLookup": "true" if chosen.recursive else None,
        }
        return {key: value for key, value in settings.items() if value is not None}

    def _text_settings(self) -> dict[str, str | None]:
        chosen = self.options
        settings = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": CORRUPT,
            "timestampFormat": chosen.timestamp_format,
            "dateFormat": chosen.date_format,
        }
        if chosen.format == "csv":
            settings |= {
                "header": str(chosen.header).lower(),
                "enforceSchema": str(not chosen.header).lower(),
                "sep": chosen.delimiter,
                "quote": chosen.quote,
                "escape": chosen.escape,
                "nullValue": chosen.null_value,
            }
        return settings

    def _schema(self) -> StructType:
        fields = [StructField(c.name, DataType.fromDDL(c.type), True) for c in self.spec.columns]
        if self.options.format != "parquet":
            fields.append(StructField(CORRUPT, StringType(), True))
        return StructType(fields)

    def _error_columns(self) -> tuple[Column, Column]:
        columns = self.spec.columns
        missing = missing_text(columns)
        if self.options.format == "parquet":
            error, raw = missing or "CAST(NULL AS STRING)", f"IF({missing} IS NULL, NULL, {row_text(columns)})"
            return F.expr(error).alias(ERROR), F.expr(raw if missing else error).alias(RAW)
        error = error_text(columns, self.options)
        if missing is None:
            return F.expr(error).alias(ERROR), F.col(CORRUPT).alias(RAW)
        raw = f"coalesce({CORRUPT}, IF({missing} IS NULL, NULL, {row_text(columns)}))"
        return F.expr(f"coalesce({error}, {missing})").alias(ERROR), F.expr(raw).alias(RAW)

    def _sequence(self) -> Column:
        """Files by the time they were last written, then rows in their order in the file.

        Spark does not read the files of a step in order, so the order is in the number itself: 2^22 for a millisecond,
        plus the row's number in its file. Where Spark does not know that number, the place of its split in the file
        plus its number in the task is as good: a task has one full split, or ends of several files. A file of more
        than four million rows overlaps with files written within the next milliseconds, which no writer does.

        Spark refuses to number the rows of a stream, for the numbers begin again with every step. That is what is meant
        here, so its check is switched off in the session that runs the stream.
        """
        written = F.unix_millis("_metadata.file_modification_time") - F.lit(_2020)
        if self.options.format == "parquet":
            row = F.col("_metadata.row_index")
        else:
            row_of_task = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
            row = F.col("_metadata.file_block_start") + row_of_task
        return written * F.lit(1 << 22) + row
