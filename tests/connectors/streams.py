"""Runs the stream of a source until all available rows are read, as a pipeline does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from tidegate.connectors import registry
from tidegate.connectors.contract import Position, SourceContext, StreamSource
from tidegate.core.schema import Column, Schema

ITEMS: Schema = (Column("id", "bigint"), Column("name", "string"), Column("price", "double"), Column("ts", "timestamp"))


def option_list(**options: str) -> list[tuple[str, str, None]]:
    return [(key, value, None) for key, value in options.items()]


def files(path: Path, columns: Schema = ITEMS, **options: str) -> StreamSource:
    source = registry.source("FILES", "items", columns, option_list(path=str(path), **options))
    assert isinstance(source, StreamSource)
    return source


class Run:
    """One checkpoint of one source: `step()` reads the available rows."""

    def __init__(self, spark: SparkSession, source: StreamSource, folder: Path, start: Position | None = None) -> None:
        self.spark, self.source, self.folder, self.start = spark, source, folder, start
        self.batches: list[list[Row]] = []

    def frame(self) -> DataFrame:
        context = SourceContext(self.folder / "own", once=True, start=self.start)
        return self.source.stream(self.spark, context)

    def step(self, *columns: str) -> list[Row]:
        """The rows since the last step, in order of arrival."""
        frame = self.frame()
        before = len(self.batches)
        query = (
            (frame.select(*columns) if columns else frame)
            .writeStream.foreachBatch(lambda batch, _: self.batches.append(batch.collect()))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [row for batch in self.batches[before:] for row in batch]

    def position(self) -> Position:
        """The source position at which a new checkpoint would start."""
        checkpoint = self.folder / "checkpoint"
        commits = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
        offset = (checkpoint / "offsets" / str(max(commits))).read_text().splitlines()[2] if commits else None
        return self.source.position(offset, checkpoint / "sources" / "0", self.start)


def good(rows: list[Row], columns: Schema = ITEMS) -> list[tuple[Any, ...]]:
    """The rows without errors, by `__seq`, as tuples of the relation's columns."""
    fine = sorted((row for row in rows if row["__error"] is None), key=lambda row: row["__seq"])
    return [tuple(row[column.name] for column in columns) for row in fine]


def bad(rows: list[Row]) -> list[tuple[str, str]]:
    """(error, raw) of the malformed rows, by `__seq`."""
    broken = sorted((row for row in rows if row["__error"] is not None), key=lambda row: row["__seq"])
    return [(row["__error"], row["__raw"]) for row in broken]


def through_json(position: Position) -> Position:
    """A position after it was stored and read again."""
    return json.loads(json.dumps(position))  # type: ignore[no-any-return]
