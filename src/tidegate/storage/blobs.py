"""Files of rows beside the logs: changes that workers wrote, late rows, snapshots. Each begins with a checksum."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from tidegate.core.files import replacing
from tidegate.core.records import Malformed
from tidegate.storage import container
from tidegate.storage.documents import checked_read
from tidegate.storage.objects import Storage

HEAD = struct.Struct("<4sQ")
MAGIC = b"TGB2"


def sealed(payload: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    """The two parts of a blob's file."""
    return HEAD.pack(MAGIC, xxh3_64_intdigest(payload)), payload


def unsealed(data: bytes) -> memoryview:
    """The payload of a blob's file; Malformed if its checksum does not match."""
    if len(data) < HEAD.size:
        raise Malformed("it is empty" if not data else "it is cut off")
    magic, checksum = HEAD.unpack_from(data)
    payload = memoryview(data)[HEAD.size :]
    if magic != MAGIC:
        raise Malformed("its first bytes are damaged")
    if checksum != xxh3_64_intdigest(payload):
        raise Malformed("its checksum is wrong")
    return payload


def decode_rows(data: bytes) -> pa.Table:
    """The rows of a blob's file; ValueError if it is damaged."""
    return container.decode(unsealed(data))


def read_rows(storage: Storage, name: str) -> pa.Table:
    """The rows of a blob or snapshot; FOLDER_DAMAGED if it is missing or damaged."""
    rows: pa.Table = checked_read(storage, name, decode_rows)
    return rows


def write_blob(payload: bytes | memoryview, folder: Path) -> str:
    """Writes a new blob durably; returns its name."""
    name = uuid.uuid4().hex
    with replacing(folder / name) as file:
        for part in sealed(payload):
            file.write(part)
    return name
