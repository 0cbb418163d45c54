"""Brings a data folder of format 2 to format 3. In format 2, state was in Spark's state store; the files that a new
generation began with were exported from it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from tidegate import errors
from tidegate.kernels.state import Store
from tidegate.spark import compat
from tidegate.storage.documents import damaged
from tidegate.storage.folder import FORMAT, MIGRATED, Folder
from tidegate.storage.generations import GenerationFiles, GenerationRecord
from tidegate.storage.state import Address, BucketSegments, BucketState, Manifest, ObjectWriter
from tidegate.storage.step_log import StepLog

_SEGMENT = "key.op AS op", "key.bucket AS bucket", "user_map_key.name AS name", "user_map_value.blob AS blob"
_EXPORTED = (
    "op",
    "bucket",
    "substring_index(cast(payload AS string), '\\0', 1) AS name",
    "substring(payload, locate('\\0', cast(payload AS string)) + 1) AS blob",
)


def migrate(spark: SparkSession, folder: Folder, log: StepLog) -> None:
    """Copy the state of the newest generation out of Spark's store, and make it the state of the last step. A process
    that dies meanwhile begins again: nothing is removed before the folder has the new format."""
    generations = GenerationFiles(folder.generations)
    record = generations.newest()
    if record is not None:
        step = generations.committed_step()
        if log.last() > step:
            raise errors.make(
                "FOLDER_VERSION",
                folder=str(folder.root),
                found=MIGRATED,
                expected=FORMAT,
                hint="its last step was not finished: run the pipeline once with the version that wrote it, stop it, "
                "and try again",
            )
        state = _copied(folder, _segments(spark, generations, record))
        if state.buckets:
            log.add_state(step, state)
    folder.set_migrated()


def _segments(spark: SparkSession, generations: GenerationFiles, record: GenerationRecord) -> Iterator[Row]:
    """The segments of all buckets, those of each bucket one after the other."""
    checkpoint = generations.checkpoint(record.number)
    checkpoint.relocate()
    try:
        for frame in _frames(spark.newSession(), generations, record):
            yield from frame.orderBy("op", "bucket").toLocalIterator()
    except Exception as problem:
        reason = str(problem).strip().splitlines()[0]
        raise damaged(str(checkpoint.folder / "state"), reason) from problem


def _frames(spark: SparkSession, generations: GenerationFiles, record: GenerationRecord) -> Iterator[DataFrame]:
    checkpoint = generations.checkpoint(record.number)
    if checkpoint.committed() is not None:
        for level in range(record.circuit.depth):
            yield compat.read_map_state(spark, checkpoint.folder, level, "segments").selectExpr(*_SEGMENT)
        return
    files = generations.record(record.number).restored_from()
    if files:
        paths = [str(Path(generations.folder, file)) for file in files]
        yield spark.read.parquet(*paths).selectExpr(*_EXPORTED)


def _copied(folder: Folder, segments: Iterator[Row]) -> Manifest:
    """The segments as objects of state."""
    writer = ObjectWriter(folder.storage)
    buckets: dict[Address, BucketState] = {}
    for address, rows in groupby(segments, key=lambda row: (row.op, row.bucket)):
        bucket = BucketSegments(folder.storage, None)
        for row in rows:
            bucket.put(row.name, bytes(row.blob))
        buckets[address] = bucket.seal(writer, frozenset(), *Store(bucket).stats())
    writer.close()
    return Manifest().after(buckets, writer.sizes)
