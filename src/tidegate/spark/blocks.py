"""Z-set blocks: how rows travel between stateful operators. A block is one Arrow record batch as bytes, addressed to
one bucket of one op (or to an output), under a tag that says which port it is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

SCHEMA = "op string, bucket int, tag string, payload binary"
ARROW = pa.schema([("op", pa.string()), ("bucket", pa.int32()), ("tag", pa.string()), ("payload", pa.binary())])

OUTPUT = "out:"
RAW = "raw:"
CONTROL = "~"
INGRESS = "~door:"
ERRORS = "~errors"
FAILED = "~failed"
LATE = "~late"
STATS = "~stats"

TICK = "tick"
REPLAY = "replay"
REPLAYED = "replayed:"
CONTENT = "content:"
INLINE = "rows"
SPILLED = "file"
LOGGED = "log"


class Block(NamedTuple):
    """One row of the stream between levels."""

    op: str
    bucket: int
    tag: str
    payload: bytes


def to_batch(blocks: Iterable[Block]) -> pa.RecordBatch:
    """Blocks as one record batch of the stream."""
    columns = list(zip(*blocks, strict=True)) or [(), (), (), ()]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)


def from_batch(batch: pa.RecordBatch) -> Iterator[Block]:
    """The blocks of a record batch of the stream."""
    for row in batch.to_pylist():
        yield Block(row["op"], row["bucket"], row["tag"], row["payload"])
