"""Files that a worker reads itself: where views take the columns of parquet files as they are, rows need not pass
through the JVM to be grouped. Spark still finds the files, remembers them, and spreads them over its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.core.columns import SEQ, WEIGHT
from tidegate.spark import blocks
from tidegate.spark.misfits import split_misfits
from tidegate.spark.pack import PackConfig, misfit_block, pack_frames

ROWS = 1 << 18
PATHS = "path string, written bigint"
"""The columns of a file listing: the address of each file, and the sequence number of its first row."""


@dataclass(frozen=True)
class Reading:
    """The columns to read, as (name, Arrow type), and what to do with their rows."""

    columns: tuple[tuple[str, pa.DataType], ...]
    config: PackConfig


def read_and_pack(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read every file and pack its rows into blocks."""
    files = (row for batch in batches for row in batch.to_pylist())
    frames = (frame for row in files for frame in _frames(reading, row["path"], row["written"]))
    return pack_frames(reading.config, frames)


def _frames(reading: Reading, address: str, written: int) -> Iterator[pl.DataFrame | pa.RecordBatch]:
    path, seq = unquote(urlparse(address).path), written
    with _naming_file(address), pq.ParquetFile(path) as file:
        present = {name.casefold(): name for name in file.schema_arrow.names}
        columns = [present[name.casefold()] for name, _ in reading.columns if name.casefold() in present]
        for batch in file.iter_batches(batch_size=ROWS, columns=columns, use_threads=False):
            frame, misfits = split_misfits(_rows(reading, batch, seq, path))
            if misfits:
                yield blocks.to_batch([misfit_block(reading.config, misfits)])
            yield frame.filter(pl.col(WEIGHT).is_not_null()) if misfits else frame
            seq += batch.num_rows


def _rows(reading: Reading, batch: pa.RecordBatch, seq: int, path: str) -> pa.RecordBatch:
    """The columns in their declared types; one that the file does not have is taken from its folder
    (`day=2024-05-01/`), or NULL."""
    present = {name.casefold(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    arrays = [
        _cast(present[name.casefold()], kind, name)
        if name.casefold() in present
        else _of_folder(path, name, kind, batch.num_rows)
        for name, kind in reading.columns
    ]
    count = batch.num_rows
    names = [*(name for name, _ in reading.columns), WEIGHT, SEQ]
    weights, numbers = pa.repeat(pa.scalar(1, pa.int64()), count), pa.array(np.arange(seq, seq + count))
    return pa.RecordBatch.from_arrays([*arrays, weights, numbers], names)


def _of_folder(path: str, name: str, kind: pa.DataType, count: int) -> pa.Array:
    match = re.search(rf"/{re.escape(name)}=([^/]*)/", path, re.IGNORECASE)
    if match is None or match[1] == "__HIVE_DEFAULT_PARTITION__":
        return pa.nulls(count, kind)
    return pa.repeat(pa.scalar(unquote(match[1])).cast(kind), count)


def _cast(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    if array.type == kind:
        return array
    if not _widens(array.type, kind):
        raise TypeError(f"Parquet column [{name}]. Expected Spark type {kind}, actual Parquet type {array.type}.")
    return array.cast(kind, safe=not pa.types.is_timestamp(kind))


def _widens(stored: pa.DataType, kind: pa.DataType) -> bool:
    """True if Spark's reader accepts the stored type for the declared one: the same, or a narrower one."""
    both = (stored, kind)
    if all(pa.types.is_signed_integer(each) for each in both):
        return bool(stored.bit_width <= kind.bit_width)
    if all(pa.types.is_timestamp(each) for each in both):
        return True
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
    if pa.types.is_string(kind):
        return any(test(stored) for test in strings)
    return bool(pa.types.is_floating(kind) and (pa.types.is_float32(stored) or pa.types.is_int32(stored)))


class _naming_file:
    """Adds the name of the file to errors while reading it, in Spark's own format."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise RuntimeError(
                f"Encountered error while reading file {self._address}. {error} SQLSTATE: KD001"
            ) from error
