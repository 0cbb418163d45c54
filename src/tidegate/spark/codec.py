"""Frames as the bytes of a block, and back."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa


def encode(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow bytes."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


def decode(payload: bytes | bytearray) -> pl.DataFrame:
    """The frame of Arrow bytes."""
    return pl.read_ipc_stream(io.BytesIO(bytes(payload)))


def frame_of(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Arrow rows as a Polars frame."""
    frame = pl.from_arrow(pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table)
    assert isinstance(frame, pl.DataFrame)
    return frame
