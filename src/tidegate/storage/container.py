"""A file of named Arrow parts behind one JSON header: an entry of the insert log or of the step log.

The header has a checksum, and the checksum and length of every part: a damaged header or a file of another length is
noticed when the header is read, a damaged part when it is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from tidegate.core.records import Codec, Malformed
from tidegate.storage.documents import MISSING, damaged
from tidegate.storage.objects import Data, Storage

HEAD = struct.Struct("<4sIQ")
MAGIC = b"TGC2"
CODEC = Codec()
FIRST_READ = 4096


@dataclass(frozen=True)
class Part:
    """One table in a container, and the weight of its rows where they do not have one each."""

    name: str
    table: pa.Table
    weight: int = 1


@dataclass(frozen=True)
class PartIndex:
    """Where a part is: its length, and the checksum of its bytes."""

    name: str
    rows: int
    weight: int
    bytes: int
    checksum: int


@dataclass(frozen=True)
class Index:
    """The JSON at the beginning of a container."""

    header: Any
    parts: tuple[PartIndex, ...]


def encode(table: pa.Table) -> memoryview:
    """An Arrow table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


def decode(data: bytes | memoryview) -> pa.Table:
    """The table of an IPC stream."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def encode_all(header: Any, parts: Sequence[Part]) -> list[Data]:
    """The bytes of a container, in pieces."""
    blobs = [encode(part.table) for part in parts]
    index = tuple(
        PartIndex(part.name, part.table.num_rows, part.weight, len(blob), xxh3_64_intdigest(blob))
        for part, blob in zip(parts, blobs, strict=True)
    )
    head = json.dumps(CODEC.encode(Index(header, index))).encode()
    return [HEAD.pack(MAGIC, len(head), xxh3_64_intdigest(head)), head, *blobs]


def read_header(storage: Storage, name: str) -> Any:
    """The header alone, without the rows; FOLDER_DAMAGED if the file is missing, damaged or of another length."""
    try:
        start, length = _read_head(storage, name)
        index = _index(start)
        _check_size(index, length, storage.size(name) or 0)
    except FileNotFoundError:
        raise damaged(storage.location(name), MISSING) from None
    except ValueError as problem:
        raise damaged(storage.location(name), problem) from None
    return index.header


def read_part(storage: Storage, name: str, part: str) -> pa.Table | None:
    """One part, without reading the others; None if there is none of that name. FOLDER_DAMAGED as for `read`."""
    try:
        start, length = _read_head(storage, name)
        at = length
        for each in _index(start).parts:
            if each.name == part:
                return _decode_part(each, memoryview(storage.read_range(name, at, each.bytes)))
            at += each.bytes
    except FileNotFoundError:
        raise damaged(storage.location(name), MISSING) from None
    except (ValueError, pa.ArrowException) as problem:
        raise damaged(storage.location(name), problem) from None
    return None


def read(storage: Storage, name: str, only: set[str] | None = None) -> tuple[Any, list[Part]]:
    """The header and the parts, or those of the given names; FOLDER_DAMAGED if a checksum does not match."""
    try:
        return parse(storage.read(name), only)
    except FileNotFoundError:
        raise damaged(storage.location(name), MISSING) from None
    except (ValueError, pa.ArrowException) as problem:
        raise damaged(storage.location(name), problem) from None


def parse(data: bytes, only: set[str] | None = None) -> tuple[Any, list[Part]]:
    """The header and the parts of a container's bytes; Malformed if they are damaged."""
    start = _head_length(data)
    index = _index(data)
    _check_size(index, start, len(data))
    view, parts = memoryview(data), []
    for each in index.parts:
        if only is None or each.name in only:
            parts.append(Part(each.name, _decode_part(each, view[start : start + each.bytes]), each.weight))
        start += each.bytes
    return index.header, parts


def _decode_part(index: PartIndex, blob: memoryview) -> pa.Table:
    if len(blob) != index.bytes or xxh3_64_intdigest(blob) != index.checksum:
        raise Malformed(f"the checksum of its part {index.name} is wrong")
    return decode(blob)


def _read_head(storage: Storage, name: str) -> tuple[bytes, int]:
    """The first bytes of a container, at least all of its head, and the length of the head."""
    start = storage.read_range(name, 0, FIRST_READ)
    length = _head_length(start)
    if length > len(start):
        start += storage.read_range(name, len(start), length - len(start))
    return start, length


def _head_length(data: bytes) -> int:
    if len(data) < HEAD.size:
        raise Malformed("it is cut off" if data else "it is empty")
    magic, length, _ = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Malformed("its first bytes are damaged")
    return HEAD.size + int(length)


def _index(data: bytes) -> Index:
    _, length, checksum = HEAD.unpack_from(data)
    head = data[HEAD.size : HEAD.size + length]
    if len(head) < length:
        raise Malformed("it is cut off")
    if xxh3_64_intdigest(head) != checksum:
        raise Malformed("the checksum of its header is wrong")
    return CODEC.decode(Index, json.loads(head))


def _check_size(index: Index, start: int, size: int) -> None:
    expected = start + sum(part.bytes for part in index.parts)
    if size != expected:
        raise Malformed(f"it has {size} bytes instead of {expected}")
